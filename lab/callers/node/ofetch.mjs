// ofetch with three retries: it repeats no POST unless the number is given.
import { ofetch } from "ofetch";

const options = !process.env.SET ? { retry: 3 } : { retry: 5, retryDelay: 1000 };

export async function pay(url, headers, body) {
  const answer = await ofetch.raw(url, { method: "POST", headers, body, ...options });
  return [answer.status, answer._data];
}
