package httpapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/cardnumber"
	"payonce/internal/problem"
)

// Limits of a body.
const (
	maxBody  = 16 << 10 // bytes
	maxDepth = 8        // nested objects and arrays
)

// requestError says why a request was refused.
type requestError struct {
	code   problem.Code
	detail string
	errors []problem.Detail
	after  time.Duration // when the client may try again; zero: not by itself
}

func (r *requestError) Error() string { return r.detail }

func invalid(errs ...problem.Detail) *requestError {
	return &requestError{code: problem.InvalidRequest, errors: errs,
		detail: "The request is not valid; errors names what to change."}
}

// wrong is the error for what is wrong with a request, or nil.
func wrong(errs []problem.Detail) *requestError {
	if len(errs) == 0 {
		return nil
	}
	return invalid(errs...)
}

// required is what is wrong with a member that the client has left out.
func required(missing bool, pointer string) []problem.Detail {
	if !missing {
		return nil
	}
	return []problem.Detail{problem.AtPointer(pointer, "is required")}
}

// unlessMissing are the missing members, and what is wrong with the others.
func unlessMissing(missing, bad []problem.Detail) []problem.Detail {
	return append(missing, slices.DeleteFunc(bad, func(d problem.Detail) bool {
		return slices.ContainsFunc(missing, func(m problem.Detail) bool { return *m.Pointer == *d.Pointer })
	})...)
}

// readBody reads a strict JSON body into dst. Names are case-sensitive, known, and not repeated. Nothing follows the
// value. The text is valid UTF-8, and integers are written as integers.
func readBody(w http.ResponseWriter, r *http.Request, dst any) *requestError {
	raw, bad := readJSON(w, r, maxBody, "The body must not exceed 16 KiB.")
	if bad != nil {
		return bad
	}
	return decode(raw, dst)
}

// readBodyIfAny is readBody for a request whose members all have defaults. It may have no body, and then no media type.
func readBodyIfAny(w http.ResponseWriter, r *http.Request, dst any) *requestError {
	if r.ContentLength == 0 {
		return nil
	}
	return readBody(w, r, dst)
}

// readJSON reads the bytes of a body, up to limit. The body must have the media type of JSON.
func readJSON(w http.ResponseWriter, r *http.Request, limit int64, tooLong string) ([]byte, *requestError) {
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, &requestError{code: problem.UnsupportedMediaType, detail: "Send Content-Type: application/json."}
	}
	if r.Header.Get("Content-Encoding") != "" {
		return nil, &requestError{code: problem.UnsupportedMediaType, detail: "Send the body without Content-Encoding."}
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, &requestError{code: problem.BodyTooLarge, detail: tooLong}
	}
	if err != nil {
		return nil, invalid(problem.AtPointer("", "could not be read to its end"))
	}
	return raw, nil
}

func isJSON(contentType string) bool {
	if contentType == jsonType {
		return true // Nearly all clients write it so.
	}
	mediaType, params, err := mime.ParseMediaType(contentType)
	charset, given := params["charset"]
	return err == nil && mediaType == jsonType && (!given || strings.EqualFold(charset, "utf-8"))
}

func decode(raw []byte, dst any) *requestError {
	if bad := checkSyntax(raw); bad != nil {
		return bad
	}
	if err := json.Unmarshal(raw, dst, json.RejectUnknownMembers(true)); err != nil {
		return invalid(explain(err))
	}
	return nil
}

// checkSyntax reads the text once: it must be a single object, not nested too deep, and without null. It runs before
// any decoding, so a text that is refused is never decoded. A null is not the same as a missing member. A client may
// send null for a number that it could not compute, and a refund without an amount would return everything.
func checkSyntax(raw []byte) *requestError {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw)) // The decoder reads a bytes.Buffer without a copy.
	mayHoldNUL := bytes.Contains(raw, []byte(`\u0000`))
	if d.PeekKind() != jsontext.KindBeginObject {
		if len(bytes.TrimSpace(raw)) > 0 {
			if _, err := d.ReadValue(); err != nil {
				return invalid(explain(err))
			}
		}
		return invalid(problem.AtPointer("", "must be a JSON object"))
	}
	for {
		token, err := d.ReadToken()
		switch {
		case err != nil:
			return invalid(explain(err))
		case d.StackDepth() > maxDepth:
			return invalid(problem.AtPointer("", "must not be nested deeper than 8 levels"))
		case mayHoldNUL && token.Kind() == jsontext.KindString && strings.ContainsRune(token.String(), 0):
			return invalid(problem.AtPointer(place(d.StackPointer()), "must not hold the character U+0000"))
		case token.Kind() == jsontext.KindNull:
			return invalid(problem.AtPointer(place(d.StackPointer()), "must not be null; leave out what has no value"))
		case d.StackDepth() == 0:
			if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
				return invalid(problem.AtPointer("", "must end after the object"))
			}
			return nil
		}
	}
}

// explain says what is wrong with a body, and names the member. It does not use the library's messages: they are for
// programmers, and could repeat what was sent.
func explain(err error) problem.Detail {
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		pointer := place(semantic.JSONPointer)
		if errors.Is(err, json.ErrUnknownName) {
			return problem.AtPointer(pointer, "is not a member of this request; names are case-sensitive")
		}
		return problem.AtPointer(pointer, expected(semantic.GoType))
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		pointer := place(syntactic.JSONPointer)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return problem.AtPointer(pointer, "is given twice")
		}
		if syntactic.Err != nil && notUTF8.MatchString(syntactic.Err.Error()) {
			return problem.AtPointer(pointer, "must be valid UTF-8")
		}
		return problem.AtPointer(pointer, "is not valid JSON")
	}
	return problem.AtPointer("", "is not valid JSON")
}

// notUTF8 finds the library's messages about bytes that are not UTF-8, and about escapes that are half a character. The
// library has no error types for them.
var notUTF8 = regexp.MustCompile(`UTF-8|surrogate`)

// memberForm is the form of the names of members, ours and those of metadata.
var memberForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,40}$`)

// place is a pointer that may be shown to the client. It ends before a name that cannot be a member of ours, because
// such a name must not be repeated.
func place(p jsontext.Pointer) string {
	var shown jsontext.Pointer
	for name := range p.Tokens() {
		if !memberForm.MatchString(name) || cardnumber.In(name) {
			break
		}
		shown = shown.AppendToken(name)
	}
	return string(shown)
}

func expected(t reflect.Type) string {
	if t == nil {
		return "has the wrong type"
	}
	switch t.Kind() { //nolint:exhaustive // requests have no other kinds
	case reflect.Int64:
		return "must be an integer, written without fraction and exponent"
	case reflect.String:
		return "must be a string"
	case reflect.Bool:
		return "must be true or false"
	case reflect.Slice:
		return "must be an array of strings"
	case reflect.Map, reflect.Struct:
		return "must be an object"
	default:
		return "has the wrong type"
	}
}
