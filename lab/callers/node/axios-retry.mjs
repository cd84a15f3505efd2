// axios-retry on its defaults: three retries at once, of lost answers only.
import axios from "axios";
import axiosRetry from "axios-retry";

const client = axios.create();
axiosRetry(client, { retries: 3 });

export async function pay(url, headers, body) {
  const answer = await client.post(url, body, { headers });
  return [answer.status, answer.data];
}
