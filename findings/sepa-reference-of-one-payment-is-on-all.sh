#!/usr/bin/env bash
# A file has one supplier's reference on the payments of all three: sepa 3.0.0 (npm), which writes files for SEPA banks.
#
# Guess: each transaction has fields of its own, as end2endId and remittanceInfo are. So has structuredRemittanceInfo, whose
#   type says that it is always there, with a typeCode, an issuer and a reference to set.
# Seen: it is one object for all transactions of the process, also of the next file. The reference that is set last is on
#   each payment, also on one that has only a text of its own: the text is not written. No validation speaks. With a new
#   object for each transaction, each has its own. Either way, the reference stands in an element "CdorPrtry"; the schema
#   pain.001.001.03 has CdOrPrtry, and Ref outside of it, so a bank that validates refuses the whole file.
# What follows: never set a field of structuredRemittanceInfo. A reference in remittanceInfo is then each payment's own.
#   Validate a file against the schema before it is sent, and compare its references with the orders.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact sepa@3.0.0 >>npm.log 2>&1 || { cat npm.log; exit 1; }

cat >pay.mjs <<'JS'
import * as SEPA from 'sepa'

function write(orders, refer) {
  const file = new SEPA.Document('pain.001.001.03')
  file.grpHdr.id = 'FILE-1'
  file.grpHdr.created = new Date(Date.UTC(2026, 10, 30))
  file.grpHdr.initiatorName = 'A Shop'
  const payments = file.createPaymentInfo()
  payments.requestedExecutionDate = new Date(Date.UTC(2026, 11, 1))
  payments.debtorIBAN = 'DE89370400440532013000'
  payments.debtorName = 'A Shop'
  file.addPaymentInfo(payments)
  for (const [id, reference] of orders) {
    const one = payments.createTransaction()
    one.creditorName = 'Supplier ' + id
    one.creditorIBAN = 'DE02120300000000202051'
    one.end2endId = id
    one.amount = 19.99
    if (reference) refer(one, reference)
    else one.remittanceInfo = 'invoice ' + id
    payments.addTransaction(one)
  }
  const text = file.toString()
  return [...text.matchAll(/<(?:Ref|Ustrd)>([^<]*)</g)].map((found) => found[1]).join(', ') +
    ', in ' + (text.match(/cdorprtry/i) || ['Ustrd'])[0]
}

const orders = [['A', 'RF18539007547034'], ['B', 'RF712348231'], ['C', '']]
console.log('a new object:', write(orders, (one, reference) => {
  one.structuredRemittanceInfo = { typeCode: 'SCOR', issuer: 'ISO', reference }
}))
console.log('the fields:', write(orders, (one, reference) => {
  Object.assign(one.structuredRemittanceInfo, { typeCode: 'SCOR', issuer: 'ISO', reference })
}))
console.log('the next file:', write([['D', '']], null))
JS
node pay.mjs | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
a new object: RF18539007547034, RF712348231, invoice C, in CdorPrtry
the fields: RF712348231, RF712348231, RF712348231, in CdorPrtry
the next file: RF712348231, in CdorPrtry
SEEN
echo "as it was seen: all payments have the reference that was set last"
