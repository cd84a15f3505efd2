// p-retry around fetch, as its page shows it: an answer is no error, so only a lost one is repeated.
import pRetry from "p-retry";

export async function pay(url, headers, body) {
  const answer = await pRetry(async () => {
    const answer = await fetch(url, { method: "POST", headers, body });
    if (process.env.SET && [409, 429, 500, 502, 503, 504].includes(answer.status)) throw new Error(answer.status);
    return answer;
  }, { retries: process.env.SET ? 5 : 3 });
  return [answer.status, await answer.text()];
}
