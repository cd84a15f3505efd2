package stripe

import (
	"math"
	"regexp"

	"payonce/internal/gateway"
)

// Our amounts count the minor unit of ISO 4217. Stripe has its own units for some currencies. All facts of this file
// are from https://docs.stripe.com/currencies, sections "Zero-decimal currencies", "Three-decimal currencies", "Special
// cases" and "Minimum and maximum charge amounts".

// tokenForm is the form of a payment method that Payonce passes on.
var tokenForm = regexp.MustCompile(`^pm_[A-Za-z0-9_]{1,61}$`)

// exponents are the currencies whose amounts Stripe counts with other decimal digits than ISO 4217.
var exponents = map[string]int{"ISK": 2, "UGX": 2, "MGA": 0}

// toStripe converts an amount into Stripe's unit. If Stripe cannot take the amount or the currency, u says why.
func toStripe(minor int64, currency string) (amount int64, u *gateway.Unacceptable) {
	amount = minor
	switch currency {
	case "ISK", "UGX":
		// ISO 4217 has no minor unit. Stripe counts hundredths that must be 00, for compatibility with old programs.
		if minor > largest(currency)/100 { // before it is multiplied, which could overflow
			return 0, tooLarge()
		}
		amount = minor * 100
	case "MGA":
		// ISO 4217 counts two digits. For Stripe, the currency has no minor unit.
		if minor%100 != 0 {
			return 0, unacceptable(gateway.AmountMember, "must be a multiple of 100 in this currency: the PSP takes whole ariary")
		}
		amount = minor / 100
	case "BHD", "JOD", "KWD", "OMR", "TND":
		if minor%10 != 0 {
			return 0, unacceptable(gateway.AmountMember, "must be a multiple of 10 in this currency: the PSP takes two decimals")
		}
	case "IQD", "LYD":
		// ISO 4217 counts three digits. Stripe lists neither as a three-decimal currency, so its unit is not known.
		return 0, unacceptable(gateway.CurrencyMember, "is not one that the PSP takes")
	}
	if amount < 1 {
		return 0, unacceptable(gateway.AmountMember, "must be at least 1")
	}
	if amount > largest(currency) {
		return 0, tooLarge()
	}
	return amount, nil
}

// fromStripe converts an amount of Stripe into the minor unit of ISO 4217. If it cannot be counted in it, ok is false,
// and minor is the nearest amount towards zero.
func fromStripe(amount int64, currency string) (minor int64, ok bool) {
	switch currency {
	case "ISK", "UGX":
		return amount / 100, amount%100 == 0
	case "MGA":
		counted := max(math.MinInt64/100, min(amount, math.MaxInt64/100))
		return counted * 100, counted == amount
	}
	return amount, true
}

// largest is the largest amount that Stripe takes, in its own unit. Some of these limits hold for some cards only. Then
// Stripe itself refuses a larger amount, before any effect.
func largest(currency string) int64 {
	switch currency {
	case "IDR":
		return 999_999_999_999
	case "LBP":
		return 99_999_999_999
	case "COP", "HUF", "JPY":
		return 9_999_999_999
	case "INR":
		return 999_999_999
	}
	return 99_999_999
}

func tooLarge() *gateway.Unacceptable {
	return unacceptable(gateway.AmountMember, "is larger than the PSP takes in this currency")
}

func unacceptable(member gateway.Member, detail string) *gateway.Unacceptable {
	return &gateway.Unacceptable{Member: member, Detail: detail}
}

// refuses says why Stripe can never take a charge or refund.
func refuses(r gateway.Request) *gateway.Unacceptable {
	if ch, is := r.(gateway.Charge); is && !tokenForm.MatchString(ch.PaymentMethod) {
		return unacceptable(gateway.TokenMember,
			"must be the id of a payment method of the PSP: pm_ and up to 61 letters, digits or underscores")
	}
	wanted := r.Wanted()
	_, u := toStripe(wanted.AmountMinor, wanted.Currency)
	return u
}
