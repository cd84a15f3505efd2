// p-retry around fetch, as its page shows it: an answer is no error, so only a lost one is repeated.
import pRetry from "p-retry";

export async function pay(url, headers, body) {
  const answer = await pRetry(() => fetch(url, { method: "POST", headers, body }), { retries: 3 });
  return [answer.status, await answer.text()];
}
