package contract

import (
	"bytes"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// check holds an exchange against the document.
func (d *Document) check(e exchange) []string {
	operation, pathParameters := d.find(e)
	described, known := operation.answers[e.status]
	if !known {
		return []string{fmt.Sprintf("the document has no such status for %s, only %v",
			operation.name, slices.Sorted(maps.Keys(operation.answers)))}
	}
	complaints := checkHeaders(described, e)
	complaints = append(complaints, checkAnswerBody(described, e)...)
	complaints = append(complaints, checkKeyHeaders(operation, e)...)
	if described.codes != nil {
		complaints = append(complaints, checkProblem(described, e)...)
	}
	if e.status < http.StatusBadRequest {
		complaints = append(complaints, checkRequest(operation, pathParameters, e)...)
	}
	return complaints
}

// find returns the operation that the request asks for, and its path parameters as they were sent. HEAD is GET without
// the answer's body.
func (d *Document) find(e exchange) (*operation, map[string]string) {
	method := e.method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	route, parameters, err := d.router.FindRoute(&http.Request{Method: method, URL: e.url})
	if err != nil {
		return d.elsewhere, nil
	}
	return d.operations[method+" "+route.Path], parameters
}

func checkHeaders(described answer, e exchange) []string {
	var complaints []string
	for _, header := range described.headers {
		values := e.received.Values(header.name)
		switch {
		case len(values) > 0:
			if complaint := header.check(strings.Join(values, ", ")); complaint != "" {
				complaints = append(complaints, fmt.Sprintf("header %s %s", header.name, complaint))
			}
		case header.required:
			complaints = append(complaints, fmt.Sprintf("header %s is missing", header.name))
		}
	}
	return complaints
}

// check says what is wrong with a parameter's or header's value, or nothing.
func (f field) check(text string) string {
	var value any = text
	if f.integer {
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Sprintf("is %q, which is no integer", text)
		}
		value = number
	}
	if err := f.schema.Validate(value); err != nil {
		return fmt.Sprintf("is %q: %s", text, reasons(err))
	}
	return ""
}

func checkAnswerBody(described answer, e exchange) []string {
	if e.method == http.MethodHead || len(described.bodies) == 0 {
		return nil // a status without a documented body is one that HTTP forbids to have one
	}
	return checkBody("the answer", described.bodies, e.received.Get("Content-Type"), e.answer)
}

// checkBody checks the media type, and of JSON the syntax and the schema. Nothing is said about the inside of other
// types.
func checkBody(whose string, allowed map[string]*jsonschema.Schema, contentType string, body []byte) []string {
	mediaType, _, err := mime.ParseMediaType(contentType)
	schema := allowed[mediaType]
	if err != nil || schema == nil {
		return []string{fmt.Sprintf("the media type of %s is %q, not one of %v", whose, contentType,
			slices.Sorted(maps.Keys(allowed)))}
	}
	if mediaType != "application/json" && !strings.HasSuffix(mediaType, "+json") {
		return nil
	}
	// The reader below takes repeated members and invalid UTF-8; this one does not.
	if !jsontext.Value(body).IsValid() {
		return []string{whose + " is no valid JSON"}
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return []string{fmt.Sprintf("%s is no JSON: %v", whose, err)}
	}
	if err := schema.Validate(value); err != nil {
		return []string{fmt.Sprintf("%s does not fit the schema: %s", whose, reasons(err))}
	}
	return nil
}

// reasons leaves the first line of the validator's message out, which names an address that nobody can open.
func reasons(err error) string {
	_, list, found := strings.Cut(err.Error(), "\n")
	if !found {
		return err.Error()
	}
	return strings.Join(strings.Fields(list), " ")
}
