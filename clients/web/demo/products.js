// What the shop sells: four attributes from 0 to 1, and a picture of a few shapes.

export const ATTRIBUTES = ["cosy", "playful", "handy", "outdoors"];

const paths = (...parts) => parts;
/** Each part of a picture has a shape, in a square of 64, and one of three tones. */
const shape = (d, tone = 1) => ({ d, tone });
const circle = (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;

export const PRODUCTS = [
  { id: "mug", name: "Tall mug", attributes: [0.83, 0.12, 0.57, 0.11], price: "9.50",
    picture: paths(shape("M16 18h26v26a8 8 0 0 1-8 8h-10a8 8 0 0 1-8-8z"), shape("M42 24h5a7 7 0 0 1 0 14h-5v-5h4a2 2 0 0 0 0-4h-4z", 2), shape("M22 12q4-4 0-8M32 12q4-4 0-8", 3)) },
  { id: "plant", name: "Fern in a pot", attributes: [0.71, 0.19, 0.09, 0.47], price: "14.00",
    picture: paths(shape("M20 42h24l-4 16H24z", 2), shape("M32 42Q8 34 14 12Q32 18 32 42Q32 18 50 12Q56 34 32 42z")) },
  { id: "lamp", name: "Reading lamp", attributes: [0.91, 0.07, 0.49, 0.03], price: "32.00",
    picture: paths(shape("M20 28L26 8h14l8 20z"), shape("M31 28h4v24h-4zM22 52h22v5H22z", 2)) },
  { id: "blanket", name: "Wool blanket", attributes: [0.97, 0.13, 0.31, 0.17], price: "45.00",
    picture: paths(shape("M10 20h40a6 6 0 0 1 6 6v24H16a6 6 0 0 1-6-6z"), shape("M10 28h46v5H10zM10 40h46v5H10z", 2)) },
  { id: "kite", name: "Box kite", attributes: [0.04, 0.93, 0.08, 0.79], price: "21.00",
    picture: paths(shape("M32 4L50 26 32 46 14 26z"), shape("M32 4v42L14 26zM32 26h18", 2), shape("M32 46q8 4 0 8t0 8", 3)) },
  { id: "ball", name: "Rubber ball", attributes: [0.09, 0.89, 0.13, 0.61], price: "6.00",
    picture: paths(shape(circle(32, 32, 24)), shape("M12 19Q32 34 52 19A24 24 0 0 1 54 42Q32 54 10 42A24 24 0 0 1 12 19z", 2)) },
  { id: "puzzle", name: "Jigsaw puzzle", attributes: [0.63, 0.81, 0.11, 0.02], price: "18.00",
    picture: paths(shape("M8 20h16a6 6 0 1 1 10 0h14v12a6 6 0 1 0 0 12v12H8V44a6 6 0 1 0 0-12z")) },
  { id: "yoyo", name: "Wooden yo-yo", attributes: [0.14, 0.94, 0.23, 0.12], price: "7.50",
    picture: paths(shape(circle(32, 40, 20)), shape(circle(32, 40, 8), 2), shape("M32 20V2", 3)) },
  { id: "tent", name: "Tent for two", attributes: [0.22, 0.18, 0.59, 0.93], price: "120.00",
    picture: paths(shape("M32 10L60 54H4z"), shape("M32 26L42 54H22z", 2)) },
  { id: "boots", name: "Hiking boots", attributes: [0.11, 0.08, 0.73, 0.91], price: "89.00",
    picture: paths(shape("M18 8h18v26l18 8q4 2 4 8H14V30q4-4 4-10z"), shape("M14 50h44v6H14zM36 16h-8v4h8zM36 24h-8v4h8z", 2)) },
  { id: "knife", name: "Pocket knife", attributes: [0.03, 0.12, 0.92, 0.67], price: "27.00",
    picture: paths(shape("M6 40l30-30q10 2 12 12L26 44z", 2), shape("M24 38l6 6-14 14q-8 0-8-6z")) },
  { id: "tools", name: "Tool roll", attributes: [0.08, 0.21, 0.98, 0.19], price: "39.00",
    picture: paths(shape("M40 6a14 14 0 0 0-12 20L8 46l10 10 20-20a14 14 0 0 0 18-18l-8 8-8-2-2-8 8-8a14 14 0 0 0-6-2z"), shape(circle(16, 48, 3), 2)) },
];

/** The features of a product for a visitor with these interests: d numbers with a norm below 1. */
export function features(product, interests) {
  const centred = product.attributes.map((value, i) => (value - 0.4) * interests[i]);
  const norm = Math.hypot(...centred) || 1;
  return centred.map((value) => (0.97 * value) / norm);
}

/** Numbers from 0 to 1 by mulberry32, so that a visit can be repeated. They protect nothing. */
export function numbersFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** The product that a visitor with this hidden taste wants of a shelf. */
export function wanted(shelf, taste) {
  const liking = shelf.map(({ attributes }) => attributes.reduce((sum, value, i) => sum + value * taste[i], 0));
  return liking.indexOf(Math.max(...liking));
}

/** A hidden taste: for each attribute a number from −1 to 1. */
export const tasteFrom = (next) => ATTRIBUTES.map(() => 2 * next() - 1);
