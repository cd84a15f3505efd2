package contract

import (
	"fmt"
	"net/url"
	"strings"
)

// checkRequest judges a request that the server has taken: the document must allow it, or the server is too lax.
func checkRequest(o *operation, pathParameters map[string]string, e exchange) []string {
	var complaints []string
	if !o.open && e.sent.Get("Authorization") == "" {
		complaints = append(complaints, "it was taken without an API key")
	}
	for _, p := range o.parameters {
		values := p.valuesIn(e, pathParameters)
		switch {
		case len(values) > 1:
			complaints = append(complaints, fmt.Sprintf("it was taken although the %s parameter %s is repeated", p.in,
				p.name))
		case len(values) == 1:
			if complaint := p.check(values[0]); complaint != "" {
				complaints = append(complaints, fmt.Sprintf("it was taken although the %s parameter %s %s", p.in,
					p.name, complaint))
			}
		case p.required:
			complaints = append(complaints, fmt.Sprintf("it was taken although the %s parameter %s is missing", p.in,
				p.name))
		}
	}
	complaints = append(complaints, checkUnknownQuery(o, e)...)
	return append(complaints, checkRequestBody(o, e)...)
}

// valuesIn returns the parameter's values in the request. The lists of Prefer count as one value (RFC 9110, section
// 5.3).
func (f field) valuesIn(e exchange, pathParameters map[string]string) []string {
	switch f.in {
	case "path":
		if value, err := url.PathUnescape(pathParameters[f.name]); err == nil && value != "" {
			return []string{value}
		}
		return nil
	case "query":
		return e.url.Query()[f.name]
	}
	values := e.sent.Values(f.name)
	if f.name == "Prefer" && len(values) > 1 {
		return []string{strings.Join(values, ", ")}
	}
	return values
}

func checkUnknownQuery(o *operation, e exchange) []string {
	if len(o.parameters) == 0 {
		return nil // pages ignore a query
	}
	var complaints []string
	for name := range e.url.Query() {
		known := false
		for _, p := range o.parameters {
			known = known || p.in == "query" && p.name == name
		}
		if !known {
			complaints = append(complaints, fmt.Sprintf("it was taken although the document has no query parameter %s",
				name))
		}
	}
	return complaints
}

func checkRequestBody(o *operation, e exchange) []string {
	switch {
	case o.bodies == nil && len(e.body) > 0:
		return []string{"it was taken although the document has no request body for it"}
	case o.bodies == nil || len(e.body) == 0 && !o.needsBody:
		return nil
	}
	return checkBody("the request, which was taken,", o.bodies, e.sent.Get("Content-Type"), e.body)
}
