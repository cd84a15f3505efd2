package payment

import "fmt"

// AmountMinor counts the minor unit of a currency by ISO 4217: cents of USD, whole yen, thousandths of KWD.
type AmountMinor int64

// Bounds of one payment, in minor units.
const (
	MinAmount AmountMinor = 1
	MaxAmount AmountMinor = 999_999_999_999
)

// Currency is an ISO 4217 alphabetic code.
type Currency string

// MinorDigits is the number of decimal digits of the currency's minor unit. ok is false for a code that is not in use.
// Source: ISO 4217, list one (active currencies and funds). Codes without a minor unit, such as metals, are left out,
// because a PSP does not charge in them.
func (c Currency) MinorDigits() (digits int, ok bool) {
	switch c {
	case "AED", "AFN", "ALL", "AMD", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BMD", "BND", "BOB",
		"BRL", "BSD", "BTN", "BWP", "BYN", "BZD", "CAD", "CDF", "CHF", "CNY", "COP", "CRC", "CUP", "CVE", "CZK",
		"DKK", "DOP", "DZD", "EGP", "ERN", "ETB", "EUR", "FJD", "FKP", "GBP", "GEL", "GHS", "GIP", "GMD", "GTQ",
		"GYD", "HKD", "HNL", "HTG", "HUF", "IDR", "ILS", "INR", "IRR", "JMD", "KES", "KGS", "KHR", "KPW", "KYD",
		"KZT", "LAK", "LBP", "LKR", "LRD", "LSL", "MAD", "MDL", "MGA", "MKD", "MMK", "MNT", "MOP", "MRU", "MUR",
		"MVR", "MWK", "MXN", "MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "PAB", "PEN", "PGK", "PHP",
		"PKR", "PLN", "QAR", "RON", "RSD", "RUB", "SAR", "SBD", "SCR", "SDG", "SEK", "SGD", "SHP", "SLE", "SOS",
		"SRD", "SSP", "STN", "SVC", "SYP", "SZL", "THB", "TJS", "TMT", "TOP", "TRY", "TTD", "TWD", "TZS", "UAH",
		"USD", "UYU", "UZS", "VED", "VES", "WST", "XCD", "XCG", "YER", "ZAR", "ZMW", "ZWG":
		return 2, true
	case "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF",
		"XPF":
		return 0, true
	case "BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND":
		return 3, true
	}
	return 0, false
}

// Money writes an amount for people, such as "120.00 USD".
func (c Currency) Money(a AmountMinor) string { return c.Decimal(a) + " " + string(c) }

// Decimal writes an amount in the major unit: 12000 KRW is "12000", 12000 USD is "120.00".
func (c Currency) Decimal(a AmountMinor) string {
	digits, _ := c.MinorDigits()
	s := fmt.Sprintf("%0*d", digits+1, a)
	if digits == 0 {
		return s
	}
	return s[:len(s)-digits] + "." + s[len(s)-digits:]
}
