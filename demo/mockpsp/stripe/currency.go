package stripe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxAmount is the largest amount of Stripe: eight digits for most currencies, and twelve for some.
const maxAmount = 999_999_999_999

// checkAmount checks an amount in the minor unit that Stripe has for the currency, which is not ISO's for all of them:
// see docs.stripe.com/currencies, "Special cases".
func checkAmount(amount int64, currency string) error {
	switch {
	case amount < 1:
		return invalidCode("parameter_invalid_integer", "amount", "This value must be greater than or equal to 1.")
	case amount < minAmount(currency):
		return invalidCode("amount_too_small", "amount",
			fmt.Sprintf("Amount must be at least %d %s", minAmount(currency), currency))
	case amount > maxAmount:
		return invalidCode("amount_too_large", "amount",
			fmt.Sprintf("Amount must be no more than %d", int64(maxAmount)))
	case isThreeDecimal(currency) && amount%10 != 0:
		return invalid("amount", "Amounts in "+currency+" must be rounded to the nearest ten.")
	case isWholeUnits(currency) && amount%100 != 0:
		return invalid("amount", "Amounts in "+currency+" have two decimals, which must be zero.")
	}
	return nil
}

// minAmount is the smallest amount of a charge, for some of the currencies for which Stripe has a minimum:
// docs.stripe.com/currencies, "Minimum and maximum charge amounts".
func minAmount(currency string) int64 {
	switch currency {
	case "usd", "eur", "aud", "cad", "chf", "sgd", "jpy":
		return 50
	case "gbp":
		return 30
	}
	return 1
}

func checkCurrency(currency string) error {
	if currency == "" {
		return missing("currency")
	}
	ok := len(currency) == 3 && strings.IndexFunc(currency, func(r rune) bool { return r < 'a' || r > 'z' }) < 0
	if !ok {
		return invalid("currency", "Invalid currency: "+currency+". Use a three-letter code in lowercase.")
	}
	return nil
}

// isThreeDecimal is true for currencies with a thousandth as their minor unit, of which the last digit must be zero.
func isThreeDecimal(currency string) bool {
	return slices.Contains([]string{"bhd", "jod", "kwd", "omr", "tnd"}, currency)
}

// isWholeUnits is true for currencies that lost their minor unit, and whose amounts still have two decimals.
func isWholeUnits(currency string) bool { return currency == "isk" || currency == "ugx" }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
