package payment_test

import (
	"fmt"

	"payonce/internal/payment"
)

// An amount is an integer, in the minor unit that ISO 4217 gives to the currency.
func ExampleCurrency_Decimal() {
	for _, currency := range []payment.Currency{"USD", "KRW", "KWD"} {
		fmt.Println(currency, currency.Decimal(12000))
	}
	// Output:
	// USD 120.00
	// KRW 12000
	// KWD 12.000
}

// Validate applies the defaults, and lists everything that is wrong with a request. It repeats no value of the client.
func ExampleCreateRequest_Validate() {
	r := payment.CreateRequest{CustomerID: "cus-1", AmountCents: 0, Currency: "usd"}
	for _, invalid := range r.Validate() {
		fmt.Println(*invalid.Pointer, invalid.Detail)
	}
	fmt.Println(r.PaymentMethod)
	// Output:
	// /amountCents must be an integer from 1 to 999999999999, in the currency's minor unit
	// /currency must be an ISO 4217 code in use, in upper case, such as USD
	// pm_ok
}
