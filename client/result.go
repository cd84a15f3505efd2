package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Result is the end of an intent.
type Result struct {
	Intent      string
	Paid        bool   // false: declined
	PaymentID   string // Payonce's id
	DeclineCode string // why the PSP refused; empty if paid
	Answer      []byte // the server's answer, the same bytes each time
}

// answerBody has what the client reads in answers, of payments and of problems.
type answerBody struct {
	PaymentID   string `json:"paymentId"`
	DeclineCode string `json:"declineCode"`
	Code        string `json:"code"`

	Status      any         `json:"status"` // a payment's is a string, a problem's a number
	CustomerID  string      `json:"customerId"`
	AmountCents json.Number `json:"amountCents"`
	Currency    string      `json:"currency"`
}

func resultOf(record Record) (Result, error) {
	var body answerBody
	if err := json.Unmarshal(record.Answer, &body); err != nil {
		return Result{Intent: record.Intent}, fmt.Errorf("read the stored answer of intent %s: %w", record.Intent, err)
	}
	return Result{record.Intent, record.Status == http.StatusCreated, body.PaymentID, body.DeclineCode,
		record.Answer}, nil
}

// codeIn is the code of a problem document, or "".
func codeIn(body []byte) string {
	var problem struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal(body, &problem); err != nil {
		return ""
	}
	return problem.Code
}

// fits compares a paid answer with what was asked for.
func fits(asked, answered []byte) error {
	var want, got answerBody
	if err := json.Unmarshal(asked, &want); err != nil {
		return fmt.Errorf("read the stored request: %w", err)
	}
	if err := json.Unmarshal(answered, &got); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if got.PaymentID == "" || got.Status != "succeeded" || got.CustomerID != want.CustomerID ||
		got.AmountCents != want.AmountCents || got.Currency != want.Currency {
		return errors.New("the answer is about another payment")
	}
	return nil
}
