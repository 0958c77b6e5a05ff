// A page that shows offers and learns which one is taken: with the bytes of a secret bundle on ciphertexts, without one in the clear.

import { Client, HelbaError, Keys, Transform } from "helba";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const NAMES = ["tea", "juice", "water"];
/** Two values of an offer, and one feature for each offer. */
const SCHEMA = { layout: "dsjson", identity: true, candidate: { price: "min-max", discount: "max" } };
const EXAMPLES = [{ candidates: [{ price: 1, discount: 0 }, { price: 5, discount: 10 }, { price: 9, discount: 20 }] }];

/** Today's offers, whose prices change from visit to visit. */
const offered = () => NAMES.map(() => ({ price: 1 + Math.round(80 * Math.random()) / 10, discount: 5 * Math.floor(5 * Math.random()) }));

async function open(server, bundle) {
  const transform = await Transform.learn(SCHEMA, EXAMPLES);
  const keys = bundle && (await Keys.open(bundle));
  const client = new Client(server, keys);
  const { features, arms } = transform;
  const bandit = await client.create({ features, arms, name: "offers of the day", ...(keys ? {} : { policy: "oful" }) });
  return { transform, bandit };
}

function App() {
  const [server, setServer] = useState(import.meta.env.VITE_SERVER ?? "http://127.0.0.1:8080");
  const [bundle, setBundle] = useState();
  const [played, setPlayed] = useState();
  const [shelf, setShelf] = useState();
  const [state, setState] = useState("closed");
  const [problem, setProblem] = useState();

  /** Does `work`, and shows what goes wrong: programs tell kinds of errors apart by their `code`. */
  const during = async (what, work) => {
    setState(what);
    setProblem(undefined);
    try {
      await work();
      setState("ready");
    } catch (error) {
      setState("failed");
      setProblem(`${error instanceof HelbaError ? error.code : "Error"}: ${error.message}`);
    }
  };

  const show = async ({ transform, bandit }) => {
    const offers = offered();
    const decision = await bandit.decide(await transform.rows(offers), { epsilon: bandit.encrypted ? 0.1 : 0 });
    setShelf({ offers, decision });
  };

  const start = () =>
    during("opening", async () => {
      const opened = await open(server, bundle && (await bundle.arrayBuffer()));
      setPlayed({ ...opened, feedbacks: 0 });
      await show(opened);
    });

  const take = (arm) =>
    during("learning", async () => {
      const { feedbacks } = await played.bandit.feedback(shelf.decision, arm === shelf.decision.arm ? 1 : 0);
      setPlayed({ ...played, feedbacks });
      await show(played);
    });

  return (
    <main data-state={state} data-feedbacks={played?.feedbacks ?? 0} data-encrypted={String(played?.bandit.encrypted ?? "")}>
      <h1>Offers of the day</h1>
      <label>Server <input id="server" value={server} onChange={(event) => setServer(event.target.value)} /></label>
      <label>Secret bundle; without one the server reads all <input id="bundle" type="file" onChange={(event) => setBundle(event.target.files[0])} /></label>
      <button id="start" onClick={start} disabled={state === "opening" || state === "learning"}>Start</button>
      {problem && <p role="alert">{problem}</p>}
      {shelf && (
        <>
          <ul>
            {shelf.offers.map(({ price, discount }, arm) => (
              <li key={NAMES[arm]}>
                <button className={arm === shelf.decision.arm ? "offer picked" : "offer"} disabled={state !== "ready"} onClick={() => take(arm)}>
                  {NAMES[arm]}, € {price}, −{discount} %
                </button>
              </li>
            ))}
          </ul>
          <output>{played.feedbacks} visits learnt, picked with probability {shelf.decision.probability ?? "unknown"}</output>
        </>
      )}
    </main>
  );
}

createRoot(document.getElementById("root")).render(<App />);
