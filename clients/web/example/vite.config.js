import { defineConfig } from "vite";

export default defineConfig({
  esbuild: { jsx: "automatic" },
  // In development a linked package is served as it is; its worker finds its modules beside it.
  optimizeDeps: { exclude: ["helba"] },
});
