/** Options that every call takes. */
export interface CallOptions {
  /** Ends the request. The call rejects with the `AbortError` of the platform. */
  signal?: AbortSignal;
}

/** Any error of this package. */
export class HelbaError extends Error {
  /** The kind, such as `"RefusedError"`: the name of the class, also where a bundler has changed that. */
  readonly code: string;
}
/** Misuse: keys that cannot be used, or not with this server. */
export class KeysError extends HelbaError {}
/** Misuse: contexts, rewards, configurations, and decisions of another bandit. Nothing was sent. */
export class ValueError extends HelbaError {}
/** Untrusted: an answer that does not follow the protocol. */
export class AnswerError extends HelbaError {}
/** The server could not be reached, or its answer broke off. The same call may be made again. */
export class UnreachableError extends HelbaError {}
/** The browser gives no random numbers. */
export class RandomnessError extends HelbaError {}
/** The worker is gone, because the keys were freed or it failed. */
export class ClosedError extends HelbaError {}
/** The server refused the request. */
export class RefusedError extends HelbaError {
  /** The HTTP status. */
  readonly status: number;
  /** The code for programs, stable across versions; `null` from a proxy. */
  readonly reason: string | null;
  /** The status in words. */
  readonly title: string;
  /** The fault of the request, and the remedy. */
  readonly detail: string;
}

/** The secret keys of a bandit, or the key of a user with one of its own. They and all computations are in a worker of their own. */
export class Keys {
  private constructor();
  /**
   * Opens the bytes of a secret bundle, or with `user` the secret of this user. The bytes are copied into the worker, and the caller should
   * overwrite its own. Rejects with `KeysError`.
   * @param passphrase of a sealed bundle. A string cannot be wiped from memory.
   */
  static open(
    bundle: ArrayBuffer | Uint8Array,
    passphrase?: string,
    options?: CallOptions & {
      /** Of a user with a key of its own: the bundle that the owner of the bandit's keys made for it, which has no secret. */
      user?: ArrayBuffer | Uint8Array;
      /** Accepts keys without security, for tests. */
      toy?: boolean;
      /**
       * For how many decisions that cannot be relied on the device may ask for other answers, under this key. Each such request tells
       * the server one bit of a decryption. The count is kept in memory and starts anew with the page: 0 by default.
       */
      repeats?: number;
    },
  ): Promise<Keys>;
  /** The id of the key pair, in hexadecimal. */
  readonly keyId: string;
  /** The least and the largest number of features. */
  readonly features: [number, number];
  /** The least and the largest number of arms. */
  readonly arms: [number, number];
  /** The kernels in use. */
  readonly kernels: "simd128" | "portable";
  /** Zeroes the keys and ends the worker. Calls that wait reject with `ClosedError`. */
  free(): Promise<void>;
}

/** A request that was answered, without its secrets: the server sees all of it. */
export interface Exchange {
  method: string;
  /** Below `/v1/`. */
  path: string;
  status: number;
  /** `performance.now()` of the worker at its beginning, and its duration, in milliseconds. */
  began: number;
  ms: number;
  /** The number of bytes of the body, and the first 256 of them. */
  sent: { bytes: number; first: Uint8Array };
  received: { bytes: number; first: Uint8Array };
}

/** The name and the tags of a bandit, which the server reads. */
export interface Labels {
  name?: string | null;
  tags?: string[] | null;
}

/** The configuration of an encrypted bandit; docs/configuration.md of the project describes the fields. All but two have defaults. */
export interface Configuration {
  features: number;
  arms: number;
  linear?: Record<string, unknown>;
  horizon?: number;
  unanswered?: number;
  comparison_bits?: 6 | 8 | 10;
  sqrt_degree?: 15 | 31;
  answers?: "arm" | "scores";
  open_model?: boolean;
  counters?: { every?: number; rho?: number | null } | null;
  discount?: number | null;
  window?: number | null;
}

/** A clear policy, which the server computes and whose contexts and rewards it reads, with its parameters. */
export interface PolicyConfiguration {
  /** One of those that `policies` lists. */
  policy: string;
  features?: number;
  arms?: number;
  [parameter: string]: unknown;
}

/** A row of the list of bandits. */
export interface Listed {
  id: string;
  encrypted: boolean;
  /** The name of the clear policy; `null` of an encrypted bandit. */
  policy: string | null;
  features: number | null;
  arms: number | null;
  name: string | null;
  tags: string[];
}

/** A server of bandits. */
export class Client {
  /**
   * Sends nothing. The first call checks that the server has the public half of the keys.
   * @param url `https://HOST[:PORT]`, of the page's own origin, or of a server that names it with `--cors-origin`.
   * @param keys for encrypted bandits. Without them there are clear policies alone.
   */
  constructor(
    url: string | URL,
    keys?: Keys | null,
    options?: {
      /** 64 hexadecimal digits, in place of the token of the bundle. */
      token?: string;
      /** Milliseconds for one request; 300,000 by default. */
      timeout?: number;
      /** Is told of every exchange. */
      observe?: (exchange: Exchange) => void;
    },
  );
  /** Creates an encrypted bandit, or one with a clear policy. Rejects with `ValueError` for a field that a configuration does not have. */
  create(configuration: (Configuration | PolicyConfiguration) & Labels & CallOptions): Promise<Bandit>;
  /** Finds a bandit. */
  bandit(id: string, options?: CallOptions): Promise<Bandit>;
  /** The bandits that the token gives access to; with this name and this tag, if given. */
  bandits(options?: { name?: string; tag?: string } & CallOptions): Promise<Listed[]>;
  /** The clear policies of the server, each with a sentence about it and an example. */
  policies(options?: CallOptions): Promise<{ policy: string; about: string; example: Record<string, unknown> }[]>;
}

/**
 * The features of each arm: K rows of d finite numbers with a norm of at most 1. The row of an arm that is closed in this decision is
 * `null`: it is not played, and of an encrypted bandit nobody else learns that it is closed.
 */
export type Contexts = ArrayLike<ArrayLike<number> | null>;

/** The options of a decision. */
export interface DecideOptions extends CallOptions {
  /**
   * Of an encrypted bandit: the probability with which the device draws the arm to play uniformly from all. `decision.probability` is then
   * that of the arm to play, which estimates from a log need. 0 by default.
   */
  epsilon?: number;
}

/** What a clear policy learns from where that is not the reward of the arm that was played. */
export interface ClearFeedback {
  rewards?: number[];
  sum?: number;
  share?: number;
}

/** A bandit: an encrypted one, whose plan the device has checked, or one with a clear policy. */
export class Bandit {
  private constructor();
  readonly id: string;
  /** Whether the server sees neither contexts nor rewards. */
  readonly encrypted: boolean;
  /** The most decisions of one request. */
  readonly mostDecisions: number;
  /** The configuration of an encrypted bandit. */
  readonly config?: Record<string, unknown>;
  /** The clear policy, and its parameters. */
  readonly policy?: string;
  readonly parameters?: Record<string, unknown>;
  /** The privacy guarantee of the clear policy, as it was when the bandit was created or found. */
  readonly privacy?: Record<string, unknown>;
  /** What holders of the key learn beyond their arms, in a sentence; `null` if that is nothing. */
  readonly label: string | null;
  /** The name and the tags, as this object has read or written them last. */
  readonly name: string | null;
  readonly tags: string[];
  /** Asks for a decision. Raises if the server asks for it, so that a lone page needs no raiser. A clear policy may need no contexts. */
  decide(contexts?: Contexts, options?: DecideOptions): Promise<Decision>;
  /** Asks for several decisions: of an encrypted bandit in one request, which is as long as that of one; of a clear policy one after the other. */
  decideSeveral(contexts: Contexts[], options?: DecideOptions): Promise<Decision[]>;
  /**
   * Returns the reward of a decision, from −1 to 1 of an encrypted bandit. The first reward counts, and a repeated call counts nothing.
   * @param decision or the bytes of its `toBytes`
   */
  feedback(
    decision: Decision | Uint8Array,
    reward: number | ClearFeedback,
    options?: CallOptions,
  ): Promise<{ decision: string; feedbacks: number; batches?: number }>;
  /**
   * Answers the tasks of the bandit beside its decisions, so that batches end sooner. It goes on until it is aborted, or until the server
   * refuses; a server that cannot be reached is asked again.
   */
  raise(options?: CallOptions): Promise<never>;
  /** The public counters. */
  status(options?: CallOptions): Promise<Record<string, unknown>>;
  /** Changes the name and the tags. What is not given stays, and `null` removes. */
  relabel(labels: Labels & CallOptions): Promise<{ name: string | null; tags: string[] }>;
  /** How often all devices played each arm, and with which sums of rewards, of an encrypted bandit that was created with `counters`. */
  counters(options?: CallOptions): Promise<{ feedbacks: number; deviation: number; arms: { pulls: number; reward: number }[] }>;
  /**
   * Erases the feedback on a decision of an encrypted bandit: later models have nothing of it. Returns the receipt.
   * @param decision with its id, or the id
   */
  erase(decision: Decision | string, options?: CallOptions): Promise<Record<string, unknown>>;
  /**
   * Creates a copy of an encrypted bandit, which begins with its sums and model and learns by itself. What is given is its name, its tags and
   * what its configuration has instead, as `{ linear: { width: … } }`. Needs a token with the scope `admin`.
   */
  copy(changes?: { linear?: Record<string, unknown>; unanswered?: number } & Labels & CallOptions): Promise<Bandit>;
  /**
   * The model of an encrypted bandit in the clear: the index of an arm with features x is omega·x plus the bonus of z = x·inverse·x. Keep it
   * from the server and its operator. Needs a token with the scope `admin`.
   */
  export(options?: CallOptions): Promise<ExportedModel>;
  /**
   * Lets an encrypted bandit decide with the model that it has, and learn nothing, until `thaw`. Rewards are refused meanwhile (`frozen`), and
   * can be returned later. Needs a token with the scope `admin`. Returns the public counters.
   */
  freeze(options?: CallOptions): Promise<Record<string, unknown>>;
  /** Lets a bandit learn that was frozen. Returns the public counters. */
  thaw(options?: CallOptions): Promise<Record<string, unknown>>;
  /** Deletes the bandit. */
  delete(options?: CallOptions): Promise<void>;
}

/** A model in the clear. */
export interface ExportedModel {
  bandit: string;
  feedbacks: number;
  features: number;
  arms: number;
  omega: number[];
  inverse: number[][];
  ridge: number;
  width: Record<string, unknown> | string;
  bonus: { linear: { slope: number } } | { root: { beta: number; c1: number } };
  context_bound: number;
  rewards: [number, number];
}

/** A value by name: a number, a text, a truth value, or `null` for no value. */
export type Values = Record<string, number | string | boolean | null>;

/** What makes features of named values, by a schema that docs/data.md describes. It is public, and holds no value of a user. */
export class Transform {
  private constructor();
  /** Reads what `text` has written, or `helba-client data transform`, or `save` of Python. */
  static open(text: string | Record<string, unknown>, options?: CallOptions): Promise<Transform>;
  /** Learns ranges and categories from example rounds. Rejects with `ValueError`. */
  static learn(
    schema: Record<string, unknown>,
    examples?: { candidates: Values[]; context?: Values }[],
    options?: CallOptions,
  ): Promise<Transform>;
  /** The names of the features. */
  readonly names: string[];
  /** The number of features of a candidate. */
  readonly features: number;
  /** The number of candidates. */
  readonly arms: number;
  /** One row of features for each candidate, for `decide`, and `null` for one that is `null`. Rejects with `ValueError` and the place of a value that cannot be used. */
  rows(candidates: Values[], options?: { context?: Values; previous?: number } & CallOptions): Promise<number[][]>;
  rows(candidates: (Values | null)[], options?: { context?: Values; previous?: number } & CallOptions): Promise<(number[] | null)[]>;
  /**
   * The reward, from 0 to 1, of a reward in the units of the schema's `reward_range`, for `feedback`. Without a range it is the value itself.
   * Rejects with `ValueError`, with the range and the value, for one outside.
   */
  reward(value: number, options?: CallOptions): Promise<number>;
  /** It as JSON, for a file. */
  text(options?: CallOptions): Promise<string>;
  /** Gives its memory back. */
  free(): Promise<void>;
}

/** A decision that waits for its reward. One that came from bytes has no fields. */
export class Decision {
  private constructor();
  readonly id?: string;
  /** The arm to play, from 0: what the bandit chose, or what `epsilon` drew in its place. */
  readonly arm?: number;
  /** The arm that the bandit chose. */
  readonly chosen?: number;
  /** The probability with which `arm` was to be played; `null` of a clear policy, whose own draws the server does not tell. */
  readonly probability?: number | null;
  /** Whether every entry was in its range. If not, the arm must not be relied on. */
  readonly reliable?: boolean;
  /** The round, from 1. */
  readonly round?: number;
  /** The number of feedbacks in the model of the decision. */
  readonly feedbacks?: number;
  /** How many decisions the evaluation made, as the server states it. */
  readonly users?: number;
  /** Whether everyone who holds the key can compute the model from the answer. */
  readonly showsModel?: boolean;
  /** Bytes of all requests and of all replies. */
  readonly sent?: number;
  readonly received?: number;
  /** How often the device asked for another answer. */
  readonly repeats?: number;
  /** Milliseconds in which the device computed. */
  readonly deviceMs?: number;
  /** What else a clear policy says of the decision, such as the budget that is spent. */
  readonly details?: Record<string, unknown>;
  /** The decision with its contexts, sealed under the secret keys, for feedback later or from another page. */
  toBytes(): Uint8Array;
  /** The decision in the bytes of `toBytes`. They are read when its reward is returned. */
  static fromBytes(bytes: ArrayBuffer | Uint8Array): Decision;
}
