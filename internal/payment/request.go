package payment

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"payonce/internal/cardnumber"
	"payonce/internal/problem"
)

// DefaultPaymentMethod is the PSP token that is charged when the request names none.
const DefaultPaymentMethod = "pm_ok"

// Merchant is the tenant for which money moves, with its PSP and its account there.
type Merchant struct {
	Tenant     string
	PSP        string
	PSPAccount string
	Tells      bool // an event is written for each change
}

// CreateRequest asks for a payment. The fingerprint is made from its JSON form, after the defaults are applied.
type CreateRequest struct {
	CustomerID    string            `json:"customerId"`
	AmountCents   AmountMinor       `json:"amountCents"`
	Currency      Currency          `json:"currency"`
	PaymentMethod string            `json:"paymentMethod"`
	Reference     string            `json:"reference,omitempty"`
	Description   string            `json:"description,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
}

// Limits of a request, in characters and entries.
const (
	maxCustomerID    = 64
	maxToken         = 61 // after "pm_"
	maxDescription   = 500
	maxReference     = 100
	maxReason        = 200
	maxMetadata      = 20
	maxMetadataName  = 40
	maxMetadataValue = 200
)

// The characters that ids, names and tokens may have.
const (
	lower         = "abcdefghijklmnopqrstuvwxyz"
	alphanumeric  = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	customerChars = alphanumeric + "._:-"
	nameChars     = alphanumeric + "._-"
	tokenChars    = alphanumeric + "_"
)

// isOf reports whether s has 1 to limit characters, all of them among chars.
func isOf(chars, s string, limit int) bool {
	return s != "" && len(s) <= limit && strings.Trim(s, chars) == ""
}

// Validate applies the defaults and lists everything that is wrong with the request, without a value of the client's.
func (r *CreateRequest) Validate() []problem.Detail {
	if r.PaymentMethod == "" {
		r.PaymentMethod = DefaultPaymentMethod
	}
	var bad []problem.Detail
	refuse := func(pointer, detail string) { bad = append(bad, problem.AtPointer(pointer, detail)) }

	if !IsCustomerID(r.CustomerID) {
		refuse("/customerId", "must be 1 to 64 letters, digits or . _ : -")
	}
	bad = append(bad, CheckAmount(r.AmountCents)...)
	if _, ok := r.Currency.MinorDigits(); !ok {
		refuse("/currency", "must be an ISO 4217 code in use, in upper case, such as USD")
	}
	if token, prefixed := strings.CutPrefix(r.PaymentMethod, "pm_"); !prefixed || !isOf(tokenChars, token, maxToken) {
		refuse("/paymentMethod", "must be a PSP token: pm_ and up to 61 letters, digits or underscores")
	}
	bad = append(bad, checkText("/description", r.Description, maxDescription)...)
	if r.Reference != "" && !IsReference(r.Reference) {
		refuse("/reference", "must be 1 to 100 characters, and no control characters")
	}
	for _, named := range [][2]string{
		{"/customerId", r.CustomerID}, {"/paymentMethod", r.PaymentMethod}, {"/reference", r.Reference},
	} {
		if cardnumber.In(named[1]) {
			refuse(named[0], noCardNumbers)
		}
	}
	return append(bad, checkMetadata(r.Metadata)...)
}

// IsCustomerID reports whether s has the form of a customer id.
func IsCustomerID(s string) bool { return isOf(customerChars, s, maxCustomerID) }

// IsReference reports whether s has the form of a merchant's own id.
func IsReference(s string) bool {
	n := utf8.RuneCountInString(s)
	return n > 0 && n <= maxReference && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

const noCardNumbers = "must not hold a card number; send a PSP token as paymentMethod"

// CheckAmount refuses an amount out of bounds.
func CheckAmount(a AmountMinor) []problem.Detail {
	if a < MinAmount || a > MaxAmount {
		return []problem.Detail{problem.AtPointer("/amountCents",
			fmt.Sprintf("must be an integer from %d to %d, in the currency's minor unit", MinAmount, MaxAmount))}
	}
	return nil
}

// checkText refuses text that is too long for its column, or has control characters, or has a card number in it.
func checkText(pointer, s string, limit int) []problem.Detail {
	var bad []problem.Detail
	if utf8.RuneCountInString(s) > limit {
		bad = append(bad, problem.AtPointer(pointer, "must be at most "+strconv.Itoa(limit)+" characters"))
	}
	if strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\n' && c != '\t' }) {
		bad = append(bad, problem.AtPointer(pointer, "must not hold control characters"))
	}
	if cardnumber.In(s) {
		bad = append(bad, problem.AtPointer(pointer, noCardNumbers))
	}
	return bad
}

func checkMetadata(m map[string]string) []problem.Detail {
	if len(m) > maxMetadata {
		return []problem.Detail{problem.AtPointer("/metadata",
			"must have at most "+strconv.Itoa(maxMetadata)+" entries")}
	}
	var bad []problem.Detail
	for _, name := range slices.Sorted(maps.Keys(m)) { // Equal requests get equal answers.
		if !isOf(nameChars, name, maxMetadataName) || cardnumber.In(name) {
			// The name may be a card number, so the answer does not repeat the name.
			bad = append(bad, problem.AtPointer("/metadata",
				"each name must be 1 to 40 letters, digits or . _ -, and no card number"))
			continue
		}
		bad = append(bad, checkText("/metadata/"+name, m[name], maxMetadataValue)...)
	}
	return bad
}

// RefundRequest asks for money back. If AmountCents is zero, the refund is for all that no other refund has reserved.
type RefundRequest struct {
	AmountCents AmountMinor `json:"amountCents,omitzero"`
	Reason      string      `json:"reason,omitempty"`
}

// Validate lists everything that is wrong with the request. An amount of zero that the client has sent is not for it to
// see: the request would stand for the whole rest.
func (r *RefundRequest) Validate() []problem.Detail {
	var bad []problem.Detail
	if r.AmountCents != 0 {
		bad = CheckAmount(r.AmountCents)
	}
	return append(bad, checkText("/reason", r.Reason, maxReason)...)
}
