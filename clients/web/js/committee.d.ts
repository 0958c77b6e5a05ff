import type { CallOptions, Contexts, Exchange } from "./index.js";
export { AnswerError, ClosedError, HelbaError, KeysError, RandomnessError, RefusedError, UnreachableError, ValueError } from "./index.js";
export type { CallOptions, Contexts, Exchange } from "./index.js";

/** A user of a committee: a session of this device, whose keys are in the page, and the server that carries its messages. */
export class User {
  private constructor();
  /**
   * Begins a session with a committee, or goes on with one, also after moves of the committee. Rejects with `KeysError` for a server with another committee, and for a session
   * with another one.
   * @param url `https://HOST[:PORT]`, of the page's own origin, or of a server that names it with `--cors-origin`.
   */
  static open(
    url: string | URL,
    options: CallOptions & {
      /** The committee's id, 64 hexadecimal digits that its members print. From the server it would be the server's choice. */
      committee: string;
      /** What `session` returned, to go on with. */
      session?: ArrayBuffer | Uint8Array;
      /** 64 hexadecimal digits, where the server asks for them. */
      token?: string;
      /** Milliseconds for one request; 300,000 by default. */
      timeout?: number;
      /** Is told of every exchange. */
      observe?: (exchange: Exchange) => void;
    },
  ): Promise<User>;
  /** The id of the committee, as it was named. */
  readonly committee: string;
  /**
   * What the page stores to go on with the session: 96 bytes, which do not change. **They are secret**: who has them and what the server
   * carries reads arms and contexts of this session.
   */
  session(): Uint8Array;
  /** Finds a bandit, which somebody has created with `helba-client`. */
  bandit(id: string, options?: CallOptions): Promise<Bandit>;
  /** Zeroes the keys of the session here. Later calls reject with `ClosedError`. */
  free(): void;
}

/** A bandit of a committee. */
export class Bandit {
  private constructor();
  readonly id: string;
  /** The number of features of an arm. */
  readonly features: number;
  /** The number of arms. */
  readonly arms: number;
  /** The linear bandit. */
  readonly config: Record<string, unknown>;
  /** The least number of sessions whose feedback a batch has. */
  readonly sessions: number;
  /** The least and the largest reward, if the bandit was created with them; else they are −1 and 1. */
  readonly rewards: readonly [number, number] | null;
  /** The most decisions of a session between two batches. */
  readonly decisions: number;
  /** The name and the tags, as they were when it was found. */
  readonly name: string | null;
  readonly tags: string[];
  /** Asks for a decision. A repeated call is another decision. */
  decide(contexts: Contexts, options?: CallOptions): Promise<Decision>;
  /**
   * Returns the reward of a decision, from −1 to 1. The first reward counts: a repeated call with the same object, or with the bytes that
   * its `toBytes` returns after the first call, sends the same message again.
   * @param decision or the bytes of its `toBytes`
   */
  feedback(decision: Decision | Uint8Array, reward: number, options?: CallOptions): Promise<{ decision: string }>;
  /**
   * Has the feedback on a decision of this session erased: with the end of the next batch the model has nothing of it.
   * @param decision or the bytes of its `toBytes`, or its id
   */
  erase(decision: Decision | Uint8Array | string, options?: CallOptions): Promise<{ decision: string }>;
  /** The public state. */
  status(options?: CallOptions): Promise<Status>;
}

/** The public state of a bandit. */
export interface Status {
  updates: number;
  /** Those in the model. */
  feedbacks: number;
  decisions: number;
  /** The requests that wait for members. */
  waiting: number;
  /** The feedbacks that wait for the end of the batch. */
  unlearnt: number;
  /** The decisions that wait for feedback. */
  open: number;
  /** The decisions that are prepared. */
  slots: number;
  /** The members who are here, and how many must be. */
  here: number[];
  needed: number;
}

/** A decision that waits for its reward. One that came from bytes has its id alone. */
export class Decision {
  private constructor();
  /** 64 hexadecimal digits. */
  readonly id: string;
  /** The arm to play, from 0. */
  readonly arm?: number;
  /** The number of the decision, from 0. */
  readonly round?: number;
  /** Bytes of the request, and of the answer. */
  readonly sent?: number;
  readonly received?: number;
  /** Milliseconds in which the device computed: the request, and with the answer. */
  readonly requestMs?: number;
  readonly deviceMs?: number;
  /** The decision for feedback later or from another page with the same session. It has neither contexts nor arm, and is no secret. */
  toBytes(): Uint8Array;
  /** The decision in the bytes of `toBytes`. */
  static fromBytes(bytes: ArrayBuffer | Uint8Array): Decision;
}
