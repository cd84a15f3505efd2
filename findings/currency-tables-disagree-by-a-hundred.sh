#!/usr/bin/env bash
# One amount, four sums: currency-codes 2.2.0, currency-format 1.0.13, js-money 0.6.3, dinero.js 2.0.2 (npm), and Intl
# of Node.js, which ships the table of Unicode's CLDR.
#
# Guess: ISO 4217 says how many decimals a currency has, and each table of currencies repeats it. What differs is new
#   currencies.
# Seen: - 10000 minor units of the Malagasy ariary (ISO: 2 decimals) are 100 by currency-codes and js-money, 1000 by
#     currency-format, 2000 by dinero.js, whose ariary has 5 iraimbilanja, and 10000 by Intl. dinero.js is right about
#     the coins, but a provider's API that counts as ISO does means hundredths.
#   - currency-format and Intl have 0 decimals for the forint and the Colombian peso (ISO: 2), and Intl has 0 for the
#     Iraqi dinar (ISO: 3): a factor of 100 or 1000. CLDR says how people write prices, and not how banks count.
#   - currency-format has 2 for the Icelandic króna, which has had none since 2007.
#   - The Caribbean guilder (XCG, since 2025) is missing in all but dinero.js; Intl gives 2 for any three letters.
# What follows: take the decimals from ISO's list or from the provider's page, keep them in a table with a test, and
#   never ask Intl how many minor units an amount has.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact currency-codes@2.2.0 \
	currency-format@1.0.13 js-money@0.6.3 dinero.js@2.0.2 >>npm.log 2>&1 || { cat npm.log; exit 1; }

cat >tables.js <<'JS'
const { dinero, toUnits } = require('dinero.js')
const currencies = require('dinero.js/currencies')
const decimals = {
  'currency-codes': (code) => require('currency-codes').code(code)?.digits,
  'currency-format': (code) => require('currency-format')[code]?.fractionSize,
  'js-money': (code) => require('js-money')[code]?.decimal_digits,
  Intl: (code) => new Intl.NumberFormat('en', { style: 'currency', currency: code }).resolvedOptions()
    .maximumFractionDigits,
}
for (const [code, iso] of Object.entries({ EUR: 2, JPY: 0, MGA: 2, HUF: 2, COP: 2, IQD: 3, ISK: 0, XCG: 2 })) {
  const sums = Object.entries(decimals).map(([name, digits]) =>
    `${name} ${digits(code) === undefined ? 'none' : 10000 / 10 ** digits(code)}`)
  sums.push(`dinero.js ${toUnits(dinero({ amount: 10000, currency: currencies[code] }))[0]}`)
  console.log(`10000 in ${code}: ISO ${10000 / 10 ** iso}, ${sums.join(', ')}`)
}
JS
node tables.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
10000 in EUR: ISO 100, currency-codes 100, currency-format 100, js-money 100, Intl 100, dinero.js 100
10000 in JPY: ISO 10000, currency-codes 10000, currency-format 10000, js-money 10000, Intl 10000, dinero.js 10000
10000 in MGA: ISO 100, currency-codes 100, currency-format 1000, js-money 100, Intl 10000, dinero.js 2000
10000 in HUF: ISO 100, currency-codes 100, currency-format 10000, js-money 100, Intl 10000, dinero.js 100
10000 in COP: ISO 100, currency-codes 100, currency-format 10000, js-money 100, Intl 10000, dinero.js 100
10000 in IQD: ISO 10, currency-codes 10, currency-format 10, js-money 10, Intl 10000, dinero.js 10
10000 in ISK: ISO 10000, currency-codes 10000, currency-format 100, js-money 10000, Intl 10000, dinero.js 10000
10000 in XCG: ISO 100, currency-codes none, currency-format none, js-money none, Intl 100, dinero.js 100
SEEN
echo "as it was seen: one amount has four sums"
