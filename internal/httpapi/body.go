package httpapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"regexp"
	"strings"

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

// refusal is why a body was not taken.
type refusal struct {
	code   problem.Code
	detail string
	errors []problem.Detail
}

func invalid(errs ...problem.Detail) *refusal {
	return &refusal{problem.InvalidRequest, "The request is not valid; errors names what to change.", errs}
}

// readBody reads a strict JSON body into dst: names as they are spelt, each once, none unknown, nothing behind the value,
// valid UTF-8, integers written as integers.
func readBody(w http.ResponseWriter, r *http.Request, dst any) *refusal {
	raw, bad := readJSON(w, r, maxBody, "The body must not exceed 16 KiB.")
	if bad != nil {
		return bad
	}
	return decode(raw, dst)
}

// readJSON reads a body to the byte that calls itself JSON, up to limit bytes.
func readJSON(w http.ResponseWriter, r *http.Request, limit int64, tooLong string) ([]byte, *refusal) {
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, &refusal{code: problem.UnsupportedMediaType, detail: "Send Content-Type: application/json."}
	}
	if r.Header.Get("Content-Encoding") != "" {
		return nil, &refusal{code: problem.UnsupportedMediaType, detail: "Send the body without Content-Encoding."}
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, &refusal{code: problem.BodyTooLarge, detail: tooLong}
	}
	if err != nil {
		return nil, invalid(problem.AtPointer("", "could not be read to its end"))
	}
	return raw, nil
}

func isJSON(contentType string) bool {
	if contentType == jsonType {
		return true // as nearly everybody writes it
	}
	mediaType, params, err := mime.ParseMediaType(contentType)
	charset, given := params["charset"]
	return err == nil && mediaType == jsonType && (!given || strings.EqualFold(charset, "utf-8"))
}

func decode(raw []byte, dst any) *refusal {
	if bad := checkSyntax(raw); bad != nil {
		return bad
	}
	if err := json.Unmarshal(raw, dst, json.RejectUnknownMembers(true)); err != nil {
		return invalid(explain(err))
	}
	return nil
}

// checkSyntax walks the text once: a single object, not too deep, without null. It goes first so that nothing is decoded of a
// text that is refused as a whole. A null is no way to leave a member out: it is what becomes of a number that could not be
// computed, and a refund without an amount returns everything.
func checkSyntax(raw []byte) *refusal {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw)) // reads a Buffer where it lies
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

// explain names the member that a JSON error is about, in words of ours: the library's are for programmers, and
// could repeat what was sent.
func explain(err error) problem.Detail {
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		pointer := place(semantic.JSONPointer)
		if errors.Is(err, json.ErrUnknownName) {
			return problem.AtPointer(pointer, "is not a member of this request; names are case-sensitive")
		}
		return problem.AtPointer(pointer, expected(semantic.GoType))
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
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

// notUTF8 finds what the library says of bytes, and of escapes for halves of characters. It has no error of its own for them.
var notUTF8 = regexp.MustCompile(`UTF-8|surrogate`)

// memberForm is what the names of members look like, ours and those of metadata.
var memberForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,40}$`)

// place is a pointer as it may be shown. A name that no member of ours could have ends it: it may be what must not be
// repeated.
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
	switch t.Kind() { //nolint:exhaustive // the kinds that requests are made of
	case reflect.Int64:
		return "must be an integer, written without fraction and exponent"
	case reflect.String:
		return "must be a string"
	case reflect.Map, reflect.Struct:
		return "must be an object"
	default:
		return "has the wrong type"
	}
}
