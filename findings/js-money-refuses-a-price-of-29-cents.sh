#!/usr/bin/env bash
# A price that is no amount of money: js-money 0.6.3 (npm), beside ts-money 0.4.8, which was made from it.
#
# Guess: fromDecimal(0.29, 'EUR') is 29 cents.
# Seen: js-money multiplies by 100 and raises "Amount must be an integer", because the product is 28.999999999999996. Of
#   the 10 000 prices from 0.00 to 99.99 it refuses 1 146, about one of nine: 0.07, 0.14, 0.28, 0.29 … With a rounding
#   function as the third argument all are right. ts-money takes all of them, so a change between the two changes which
#   orders fail. The README's example is 15.25, which a computer holds exactly.
# What follows: always give the third argument, and test prices in a loop and not by an example.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact js-money@0.6.3 ts-money@0.4.8 >>npm.log 2>&1 ||
	{ cat npm.log; exit 1; }

cat >prices.js <<'JS'
const js = require('js-money')
const ts = require('ts-money').Money
const ways = {
  'js-money': (price) => js.fromDecimal(price, 'EUR').amount,
  'js-money with Math.round': (price) => js.fromDecimal(price, 'EUR', Math.round).amount,
  'ts-money': (price) => ts.fromDecimal(price, 'EUR').amount,
}
for (const [name, amount] of Object.entries(ways)) {
  const refused = []
  let wrong = 0
  let message = ''
  for (let cents = 0; cents < 10000; cents++) {
    try {
      if (amount(cents / 100) !== cents) wrong++
    } catch (err) {
      refused.push(cents / 100)
      message = ', ' + err.message
    }
  }
  console.log(`${name}: ${wrong} wrong, ${refused.length} refused${message} ${refused.slice(0, 4).join(' ')}`)
}
JS
node prices.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
js-money: 0 wrong, 1146 refused, Amount must be an integer 0.07 0.14 0.28 0.29
js-money with Math.round: 0 wrong, 0 refused 
ts-money: 0 wrong, 0 refused 
SEEN
echo "as it was seen: one price of nine is refused"
