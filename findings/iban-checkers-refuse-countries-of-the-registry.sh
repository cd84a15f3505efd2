#!/usr/bin/env bash
# Bank accounts that do not exist, for a checker: iban 0.0.14 (npm) and github.com/almerlucke/go-iban of 24 March 2022
# (Go), beside ibantools 4.5.4 (npm).
#
# Guess: an IBAN is right if its check digits are, and has the length of its country. A checker that does not know a
#   country says so, or checks the digits alone.
# Seen: iban refuses the examples of twelve countries of SWIFT's registry, and go-iban of fourteen: Libya, Mongolia,
#   Oman, Nicaragua, with go-iban also Iraq and El Salvador. iban says just false, as for a typing error. All of them
#   have right check digits (by calculation), and ibantools takes them. The other way round, ibantools refuses an IBAN
#   in groups of four, as it stands on each invoice, and iban takes small letters and hyphens. So an account that one of
#   them has checked, and that was stored, may be refused by the next one.
# What follows: remove spaces before the check, and let the bank say which countries it pays to.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact iban@0.0.14 ibantools@4.5.4 >>npm.log 2>&1 ||
	{ cat npm.log; exit 1; }

# The examples of the registry, and one account in four ways of writing.
cat >ibans <<'IBANS'
BI4210000100010000332045181
DJ2100010000000154000100186
FK88SC123456789012
HN88CABF00000000000250005469
IQ98NBIQ850123456789012
LY83002048000020100120361
MN121234123456789123
NI45BAPR00000013000003558124
OM810180000001299123456
RU0304452522540817810538091310419
SD2129010501234001
SO211000001001000100141
SV62CENR00000000000000700025
YE15CBYE0001018861234567891234
DE89370400440532013000
DE89 3704 0044 0532 0130 00
DE89-3704-0044-0532-0130-00
de89370400440532013000
IBANS
cat >check.js <<'JS'
const { isValidIBAN } = require('ibantools')
const { isValid } = require('iban')
const digits = (iban) => {
  const bare = iban.replace(/[ -]/g, '').toUpperCase()
  const number = (bare.slice(4) + bare.slice(0, 4)).replace(/[A-Z]/g, (c) => c.charCodeAt(0) - 55)
  return BigInt(number) % 97n === 1n
}
for (const iban of require('node:fs').readFileSync('ibans', 'utf8').trim().split('\n')) {
  console.log(`${iban}: digits ${digits(iban)}, ibantools ${isValidIBAN(iban)}, iban ${isValid(iban)}`)
}
JS
go mod init example.test/ibans 2>go.log
cat >main.go <<'GO'
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/almerlucke/go-iban/iban"
)

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if _, err := iban.NewIBAN(lines.Text()); err != nil {
			fmt.Println("go-iban:", err)
		}
	}
}
GO
go get github.com/almerlucke/go-iban@v0.0.0-20220324081643-09bcab81b879 >>go.log 2>&1 || { cat go.log; exit 1; }

{ node check.js && go run . <ibans; } | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
BI4210000100010000332045181: digits true, ibantools true, iban false
DJ2100010000000154000100186: digits true, ibantools true, iban false
FK88SC123456789012: digits true, ibantools true, iban false
HN88CABF00000000000250005469: digits true, ibantools true, iban false
IQ98NBIQ850123456789012: digits true, ibantools true, iban true
LY83002048000020100120361: digits true, ibantools true, iban false
MN121234123456789123: digits true, ibantools true, iban false
NI45BAPR00000013000003558124: digits true, ibantools true, iban false
OM810180000001299123456: digits true, ibantools true, iban false
RU0304452522540817810538091310419: digits true, ibantools true, iban false
SD2129010501234001: digits true, ibantools true, iban false
SO211000001001000100141: digits true, ibantools true, iban false
SV62CENR00000000000000700025: digits true, ibantools true, iban true
YE15CBYE0001018861234567891234: digits true, ibantools true, iban false
DE89370400440532013000: digits true, ibantools true, iban true
DE89 3704 0044 0532 0130 00: digits true, ibantools false, iban true
DE89-3704-0044-0532-0130-00: digits true, ibantools false, iban true
de89370400440532013000: digits true, ibantools false, iban true
go-iban: Unsupported country code BI
go-iban: Unsupported country code DJ
go-iban: Unsupported country code FK
go-iban: Unsupported country code HN
go-iban: Unsupported country code IQ
go-iban: Unsupported country code LY
go-iban: Unsupported country code MN
go-iban: Unsupported country code NI
go-iban: Unsupported country code OM
go-iban: Unsupported country code RU
go-iban: Unsupported country code SD
go-iban: Unsupported country code SO
go-iban: Unsupported country code SV
go-iban: Unsupported country code YE
go-iban: IBAN can contain only alphanumeric characters
SEEN
echo "as it was seen: accounts of the registry are refused"
