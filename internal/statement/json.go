package statement

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// jsonWriter writes one object, token by token. Its last members are the lists of breaks and of books.
type jsonWriter struct{ out *jsontext.Encoder }

type jsonRun struct {
	Summary

	Day string `json:"day"`
}

type jsonBreak struct {
	Break

	Day string `json:"day"`
}

func (w *jsonWriter) begin(report Report, totals []Total) error {
	runs := make([]jsonRun, len(report.Runs))
	for i, s := range report.Runs {
		runs[i] = jsonRun{s, s.Day.Format(time.DateOnly)}
	}
	return w.write(
		jsontext.BeginObject, "day", report.Day.Format(time.DateOnly), "runs", runs, "totals", totals,
		"breaks", jsontext.BeginArray)
}

func (w *jsonWriter) add(b Break) error { return w.write(jsonBreak{b, b.Day.Format(time.DateOnly)}) }

func (w *jsonWriter) endBreaks() error {
	return w.write(jsontext.EndArray, "books", jsontext.BeginArray)
}

// jsonBooks are both books of an account's day.
type jsonBooks struct {
	Account string `json:"account"`
	Day     string `json:"day"`
	Books
}

func (w *jsonWriter) books(s Summary, b Books) error {
	return w.write(jsonBooks{s.Account, s.Day.Format(time.DateOnly), b})
}

func (w *jsonWriter) end() error { return w.write(jsontext.EndArray, jsontext.EndObject) }

func (w *jsonWriter) write(parts ...any) error {
	for _, part := range parts {
		var err error
		if token, ok := part.(jsontext.Token); ok {
			err = w.out.WriteToken(token)
		} else {
			err = json.MarshalEncode(w.out, part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
