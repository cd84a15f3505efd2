// node-fetch: it sends once.
import fetch from "node-fetch";

export async function pay(url, headers, body) {
  const answer = await fetch(url, { method: "POST", headers, body });
  return [answer.status, await answer.text()];
}
