package idempotency_test

import (
	"fmt"

	"payonce/internal/idempotency"
)

// A key is drawn at random, once for each operation that the client intends. A key that says something about a person
// is refused, and so is one that is too short to be random.
func ExampleParseKey() {
	key, err := idempotency.ParseKey("0193e7a0-5f4e-7c1b-8a53-2f1d0e6b9c4d")
	fmt.Println(key, err)

	_, err = idempotency.ParseKey("order-42")
	fmt.Println(err)

	_, err = idempotency.ParseKey("somebody@example.test")
	fmt.Println(err)
	// Output:
	// 0193e7a0-5f4e-7c1b-8a53-2f1d0e6b9c4d <nil>
	// idempotency key invalid: it has 8 characters, 16 to 255 are allowed
	// idempotency key invalid: it looks like an e-mail address; use a random value such as a UUID
}

// The fingerprint is of what is asked, not of the bytes that ask. The order of the members makes no difference, and
// another amount does.
func ExampleFingerprintOf() {
	type payment struct {
		Amount   int    `json:"amountCents"`
		Currency string `json:"currency"`
	}
	type otherOrder struct {
		Currency string `json:"currency"`
		Amount   int    `json:"amountCents"`
	}
	first, _ := idempotency.FingerprintOf("POST", "/payments", payment{Amount: 12000, Currency: "USD"})
	again, _ := idempotency.FingerprintOf("POST", "/payments", otherOrder{Currency: "USD", Amount: 12000})
	other, _ := idempotency.FingerprintOf("POST", "/payments", payment{Amount: 12001, Currency: "USD"})
	fmt.Println("the same request:", first == again)
	fmt.Println("another amount:  ", first == other)
	// Output:
	// the same request: true
	// another amount:   false
}
