#!/usr/bin/env bash
# Bank statements in currencies with three decimals: mt940js 1.3.5, swiftmessageparser 1.2.1, @centrapay/swift-parser
# 1.0.1 (npm), readers of MT940.
#
# Guess: a reader of bank statements takes the decimals that the statement has. MT940 gives an amount with the decimals
#   of its currency: three for the Kuwaiti, Bahraini and Tunisian dinar.
# Seen: all three round each amount to two decimals.
#   - mt940js then adds the rounded lines up, compares them with the rounded balances, and refuses a statement that adds
#     up: "Sum of lines (2) != turnover (2.01) in group 1". Whether it does depends on the amounts of the day.
#   - The two others return 1.004 KWD as 1, and 0.004 KWD as 0, without a word. If the lines and the balance come out
#     alike, nobody notices; the comparison with the shop's own books fails for most of the lines.
# What follows: compare in the currency's minor unit, and try a reader with a currency of three decimals first.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact \
	mt940js@1.3.5 swiftmessageparser@1.2.1 @centrapay/swift-parser@1.0.1 >>npm.log 2>&1 || { cat npm.log; exit 1; }

cat >read.js <<'JS'
const statement = (currency, opening, lines, closing) => [
  ':20:STATEMENT1', ':25:EXAMPLE/1', ':28C:1/1', `:60F:C261125${currency}${opening}`,
  ...lines.flatMap((amount, i) => [`:61:2611261126C${amount}NTRFPAYMENT${i}`, `:86:payment ${i}`]),
  `:62F:C261126${currency}${closing}`, '-',
].join('\n')
const dinars = statement('KWD', '0,000', ['1,004', '1,004'], '2,008')
const even = statement('KWD', '0,000', ['0,004', '1,996'], '2,000')
const dollars = statement('USD', '0,00', ['1,04', '1,04'], '2,08')

const readers = {
  mt940js: (text) => new (require('mt940js').Parser)().parse(text),
  swiftmessageparser: (data) => require('swiftmessageparser').parse({ type: 'mt940', data }),
  '@centrapay/swift-parser': (data) => require('@centrapay/swift-parser').parse({ type: 'mt940', data }),
}
const seen = []
for (const [name, read] of Object.entries(readers)) {
  for (const [what, text] of Object.entries({ dollars, dinars, even })) {
    let amounts
    try {
      amounts = read(text)[0].transactions.map((line) => String(line.amount)).join(' ')
    } catch (err) {
      amounts = 'error: ' + err.message
    }
    seen.push(`${name}, ${what}: ${amounts}`)
  }
}
console.log(seen.join('\n'))
JS

node read.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
mt940js, dollars: 1.04 1.04
mt940js, dinars: error: Sum of lines (2) != turnover (2.01) in group 1
mt940js, even: 0 2
swiftmessageparser, dollars: 1.04 1.04
swiftmessageparser, dinars: 1 1
swiftmessageparser, even: 0 2
@centrapay/swift-parser, dollars: 1.04 1.04
@centrapay/swift-parser, dinars: 1 1
@centrapay/swift-parser, even: 0 2
SEEN
echo "as it was seen: the third decimal is lost"
