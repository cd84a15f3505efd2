#!/usr/bin/env bash
# Bank statements of quiet days: ofx-js 1.1.1 and node-ofx-parser 0.5.1 (npm), readers of OFX.
#
# Guess: the transactions of a statement are a list, of one or none too. The payer's name comes out as it was written.
# Seen: - Both make a list of two or more transactions only. One transaction is the object itself, and of none there is
#     a text, "", in place of the statement's list. A loop over it that works all month fails, or silently does nothing,
#     on a day with one payment.
#   - node-ofx-parser turns & into &amp; three times: "Smith &amp; Co" (as OFX has it) becomes "Smith &amp;amp;amp; Co".
#     Payers with an ampersand are matched with nobody. ofx-js is right there, and leaves &apos; as it is.
# What follows: make a list of whatever comes, [].concat(x || []), and test a statement with one payment and one with
#   none. Unescape names yourself, and only once.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact ofx-js@1.1.1 node-ofx-parser@0.5.1 >>npm.log 2>&1 ||
	{ cat npm.log; exit 1; }

cat >read.js <<'JS'
const statement = (names) => ['OFXHEADER:100', 'DATA:OFXSGML', 'VERSION:102', '',
  '<OFX><BANKMSGSRSV1><STMTTRNRS><STMTRS><CURDEF>EUR', '<BANKTRANLIST>',
  ...names.map((name, i) => `<STMTTRN><TRNTYPE>CREDIT<DTPOSTED>20261126<TRNAMT>1.00<FITID>${i}<NAME>${name}</STMTTRN>`),
  '</BANKTRANLIST>', '</STMTRS></STMTTRNRS></BANKMSGSRSV1></OFX>'].join('\n')
const readers = { 'ofx-js': require('ofx-js').parse, 'node-ofx-parser': require('node-ofx-parser').parse }
const main = async () => {
  for (const [name, parse] of Object.entries(readers)) {
    for (const payers of [['A', 'B'], ['A'], []]) {
      const list = (await parse(statement(payers))).OFX.BANKMSGSRSV1.STMTTRNRS.STMTRS.BANKTRANLIST
      const kind = Array.isArray(list.STMTTRN) ? 'a list' : list === '' ? 'an empty text' : `an ${typeof list.STMTTRN}`
      console.log(`${name}, ${payers.length} transactions: ${kind}`)
    }
    const both = await parse(statement(['Smith &amp; Co', 'B']))
    console.log(`${name}: ${both.OFX.BANKMSGSRSV1.STMTTRNRS.STMTRS.BANKTRANLIST.STMTTRN[0].NAME}`)
  }
}
main()
JS
node read.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
ofx-js, 2 transactions: a list
ofx-js, 1 transactions: an object
ofx-js, 0 transactions: an empty text
ofx-js: Smith & Co
node-ofx-parser, 2 transactions: a list
node-ofx-parser, 1 transactions: an object
node-ofx-parser, 0 transactions: an empty text
node-ofx-parser: Smith &amp;amp;amp; Co
SEEN
echo "as it was seen: one payment is no list, and none is a text"
