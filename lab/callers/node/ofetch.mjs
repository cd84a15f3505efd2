// ofetch with three retries: it repeats no POST unless the number is given.
import { ofetch } from "ofetch";

export async function pay(url, headers, body) {
  const answer = await ofetch.raw(url, { method: "POST", headers, body, retry: 3 });
  return [answer.status, answer._data];
}
