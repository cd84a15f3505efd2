package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"

	"payonce/internal/idempotency"
)

const keyHeader = "Idempotency-Key"

var errKeyMissing = errors.New("the header Idempotency-Key is required")

// keyOf reads the key of a request: the bare form, or the RFC 8941 string of the IETF draft (Structured Headers). Both
// forms are the same key.
func keyOf(h http.Header) (idempotency.Key, error) {
	values := h.Values(keyHeader)
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return idempotency.Key{}, errKeyMissing
	case len(values) > 1:
		return idempotency.Key{}, fmt.Errorf("%w: the header is repeated", idempotency.ErrKeyInvalid)
	}
	value := values[0]
	if strings.HasPrefix(value, `"`) {
		item, err := httpsfv.UnmarshalItem(values)
		if err != nil {
			return idempotency.Key{}, fmt.Errorf("%w: it begins with a quote and is no string of RFC 8941",
				idempotency.ErrKeyInvalid)
		}
		unquoted, ok := item.Value.(string)
		if !ok || len(item.Params.Names()) > 0 {
			return idempotency.Key{}, fmt.Errorf("%w: it must be one string without parameters",
				idempotency.ErrKeyInvalid)
		}
		value = unquoted
	}
	return idempotency.ParseKey(value)
}
