package mockpsp

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxBodyBytes      = 16 << 10
	maxAmountCents    = 999_999_999_999
	maxReferenceRunes = 255
	maxReasonRunes    = 500
)

// keyedBody reads what every POST under /v1 carries: a key and a JSON body.
func (c *call) keyedBody() (key string, body []byte, err error) {
	key, err = singleHeader(c.r, "Idempotency-Key", maxKeyLength)
	if err != nil {
		return "", nil, err
	}
	mediaType, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		return "", nil, invalid("the Content-Type must be application/json")
	}
	body, err = readBody(c.w, c.r)
	return key, body, err
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, apiError{http.StatusRequestEntityTooLarge, "body_too_large",
			fmt.Sprintf("the body is larger than %d bytes", maxBodyBytes)}
	}
	if err != nil {
		return nil, invalid("the body could not be read")
	}
	return body, nil
}

// parseStrictly refuses unknown, duplicate and differently-cased members, trailing data, and numbers that are not
// plain integers where an integer is due.
func parseStrictly(body []byte, into any) error {
	err := json.Unmarshal(body, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return invalid("the body names a member twice")
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(semantic.Err, json.ErrUnknownName) {
			return invalid(fmt.Sprintf("the body has an unknown member at %q", string(semantic.JSONPointer)))
		}
		return invalid(fmt.Sprintf("the body has a value of the wrong type at %q", string(semantic.JSONPointer)))
	}
	return invalid("the body is not one JSON value")
}

// checkMoney checks what charges and refunds have in common.
func checkMoney(amountCents int64, currency, reference string) error {
	if amountCents < 1 || amountCents > maxAmountCents {
		return invalid(fmt.Sprintf("amountCents must be an integer from 1 to %d", int64(maxAmountCents)))
	}
	if len(currency) != 3 || !isUpperLetter(currency[0]) || !isUpperLetter(currency[1]) || !isUpperLetter(currency[2]) {
		return invalid("currency must be three capital letters")
	}
	if utf8.RuneCountInString(reference) > maxReferenceRunes {
		return invalid(fmt.Sprintf("reference must not be longer than %d characters", maxReferenceRunes))
	}
	return nil
}

func isUpperLetter(b byte) bool { return 'A' <= b && b <= 'Z' }
