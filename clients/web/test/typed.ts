// A program that `tsc --strict` accepts: the types that users see. `.ci/web` checks it, and the lines of README.md after it.
import {
  AnswerError, type Bandit, Client, type Contexts, Decision, type Exchange, HelbaError, Keys, type Listed, RefusedError, Transform,
  UnreachableError,
} from "../js/index.js";
import { type Bandit as SharedBandit, Decision as SharedDecision, KeysError, User } from "../js/committee.js";

export async function play(bundle: ArrayBuffer, rows: Float64Array[], patience: AbortSignal): Promise<number> {
  const keys: Keys = await Keys.open(bundle, "correct horse", { repeats: 2, signal: patience });
  await Keys.open(bundle, undefined, { user: new Uint8Array(bundle) });
  const [least, most]: [number, number] = keys.features;
  const seen: number[] = [];
  const observe = (exchange: Exchange): void => void seen.push(exchange.sent.bytes, exchange.received.first.length);
  const client = new Client(new URL("https://bandits.example"), keys, { token: "0".repeat(64), timeout: 1000, observe });
  const bandit: Bandit = await client.create({ features: least, arms: most, answers: "arm", comparison_bits: 8 });
  const contexts: Contexts = rows;
  const decisions: Decision[] = await bandit.decideSeveral([contexts, [[0.5, 0.5], [1, 0]]]);
  const stored: Uint8Array = decisions[0]!.toBytes();
  try {
    const { feedbacks } = await bandit.feedback(Decision.fromBytes(stored), 0.5);
    return feedbacks + (decisions[1]!.arm ?? 0);
  } catch (error) {
    if (error instanceof RefusedError && error.status === 410) return error.detail.length;
    if (error instanceof UnreachableError || error instanceof AnswerError) return error.code.length;
    throw error instanceof HelbaError ? new Error(error.message) : error;
  } finally {
    await keys.free();
  }
}

export async function named(keys: Keys, text: string): Promise<number> {
  const transform: Transform = await Transform.open(text);
  const other: Transform = await Transform.learn({ layout: "dsjson", candidate: { price: "max" } }, [{ candidates: [{ price: 1 }, { price: null }] }]);
  const rows: number[][] = await other.rows([{ price: 3 }, { price: 4 }], { context: { hot: true } });
  const client = new Client("https://bandits.example", keys);
  const { features, arms } = transform;
  const bandit: Bandit = await client.create({ features, arms, name: "shop", tags: ["live"], counters: { every: 10 } });
  const drawn: Decision = await bandit.decide(rows, { epsilon: 0.1 });
  const paid: number = await transform.reward(12.5);
  await bandit.feedback(drawn, paid);
  await bandit.erase(drawn);
  const second: Bandit = await bandit.copy({ name: "second", linear: { width: { constant: { alpha: 0.5 } } } });
  await second.delete();
  const { omega }: { omega: number[] } = await bandit.export();
  await bandit.freeze();
  await bandit.thaw();
  const { pulls }: { pulls: number } = (await bandit.counters()).arms[0]!;
  const { tags }: { tags: string[] } = await bandit.relabel({ name: null, tags: ["old"] });
  const clear: Bandit = await new Client(location.origin).create({ policy: "oful", features, arms, wait: 60 });
  const decision: Decision = await clear.decide(rows);
  await clear.feedback(decision, { rewards: [0, 1] });
  const listed: Listed[] = await client.bandits({ tag: "live" });
  await transform.free();
  return pulls + omega.length + tags.length + listed.length + (decision.probability ?? 0) + (drawn.chosen ?? 0);
}

export async function misuse(keys: Keys, client: Client): Promise<void> {
  // @ts-expect-error there is no such number of bits
  await client.create({ features: 2, arms: 2, comparison_bits: 7 });
  // @ts-expect-error keys are opened, not constructed
  new Keys();
  // @ts-expect-error a reward is a number
  await (await client.bandit("x")).feedback(new Uint8Array(), "1");
  // @ts-expect-error the id does not change
  keys.keyId = "";
}

export async function shared(committee: string, session: Uint8Array | undefined, rows: Float64Array[]): Promise<number> {
  const user: User = await User.open(new URL("https://bandits.example"), { committee, session, timeout: 1000 });
  const kept: Uint8Array = user.session();
  const bandit: SharedBandit = await user.bandit("x");
  const decision: SharedDecision = await bandit.decide(rows);
  const { decision: id }: { decision: string } = await bandit.feedback(SharedDecision.fromBytes(decision.toBytes()), 0.5);
  await bandit.erase(id);
  const { here, needed }: { here: number[]; needed: number } = await bandit.status();
  // The errors are those of the package.
  const wrong = new Error() instanceof KeysError || new Error() instanceof HelbaError;
  user.free();
  return kept.length + here.length + needed + bandit.features * bandit.arms + (decision.arm ?? 0) + Number(wrong);
}

export async function sharedMisuse(user: User, bandit: SharedBandit): Promise<void> {
  // @ts-expect-error without the id the server would choose the members
  await User.open("https://bandits.example", {});
  // @ts-expect-error members learn from the arm that they chose
  await bandit.decide([[1]], { epsilon: 0.1 });
  // @ts-expect-error members count no arms
  await bandit.counters();
  // @ts-expect-error a session is begun, not constructed
  new User();
}
