#!/usr/bin/env bash
# A money library that loses cents in three ways: github.com/Rhymond/go-money v1.0.15 (Go).
#
# Guess: NewFromFloat(0.29, "EUR") is 29 cents. Round() rounds half a unit up, or to the even one. An amount comes back
#   from JSON as it went in.
# Seen: - NewFromFloat cuts the product off: 0.29 is 28 cents, 1.15 is 114, 19.99 is 1998. Of the 10 000 prices from
#     0.00 to 99.99, 573 lose a cent. Its comment speaks of rounding "trailing decimals down"; these prices have none.
#   - Round() takes exactly a half down, at odd and even units: 0.50, 1.50 and 2.50 become 0, 1 and 2, while 1.51 is 2.
#   - JSON goes through a float64: 9007199254740993 comes back as …992, and {"amount":1.5} is 1, without an error.
# What follows: New() with an integer is exact, and the only way in. Read JSON with a type of your own.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
go mod init example.test/shop 2>go.log
cat >main.go <<'GO'
package main

import (
	"encoding/json"
	"fmt"

	"github.com/Rhymond/go-money"
)

func main() {
	for _, price := range []float64{0.29, 1.15, 19.99, 0.30} {
		fmt.Println("NewFromFloat", price, "->", money.NewFromFloat(price, money.EUR).Amount())
	}
	wrong := 0
	for cents := range int64(10000) {
		if money.NewFromFloat(float64(cents)/100, money.EUR).Amount() != cents {
			wrong++
		}
	}
	fmt.Println("prices from 0.00 to 99.99 that lose a cent:", wrong)
	for _, cents := range []int64{50, 150, 151, 250} {
		fmt.Println("Round", cents, "->", money.New(cents, money.EUR).Round().Amount())
	}
	for _, text := range []string{`{"amount":9007199254740993,"currency":"EUR"}`, `{"amount":1.5,"currency":"EUR"}`} {
		var m money.Money
		err := json.Unmarshal([]byte(text), &m)
		fmt.Println("JSON", text, "->", m.Amount(), err)
	}
}
GO
go get github.com/Rhymond/go-money@v1.0.15 >>go.log 2>&1 || { cat go.log; exit 1; }

go run . | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
NewFromFloat 0.29 -> 28
NewFromFloat 1.15 -> 114
NewFromFloat 19.99 -> 1998
NewFromFloat 0.3 -> 30
prices from 0.00 to 99.99 that lose a cent: 573
Round 50 -> 0
Round 150 -> 100
Round 151 -> 200
Round 250 -> 200
JSON {"amount":9007199254740993,"currency":"EUR"} -> 9007199254740992 <nil>
JSON {"amount":1.5,"currency":"EUR"} -> 1 <nil>
SEEN
echo "as it was seen: 0.29 EUR is 28 cents"
