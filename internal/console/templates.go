package console

import (
	"bytes"
	"fmt"
	"html/template"
	"time"
)

func (c *Console) execute(name string, data any) (string, error) {
	var b bytes.Buffer
	if err := c.templates.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("render %s: %w", name, err)
	}
	return b.String(), nil
}

// functions are what the templates call.
func functions(now func() time.Time) template.FuncMap {
	age := func(d time.Duration) string { return d.Truncate(time.Second).String() }
	return template.FuncMap{
		"clock": func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
		"stamp": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
		"age":   age,
		"iso":   func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") },
		"now":   now, "indented": indented,
		"does": does, "leadsTo": leadsTo,
		"since":  func(t time.Time) string { return age(now().Sub(t)) },
		"keyURL": keyURL, "amount": amountOf, "foundURL": foundURL, "choice": choiceName,
		"severalActions": severalActions, "s": plural,
		"paymentKeyURL": paymentKeyURL, "refundKeyURL": refundKeyURL,
		"endpointURL": endpointURL, "short": short, "shownURL": shownURL,
	}
}
