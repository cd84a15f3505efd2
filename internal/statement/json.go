package statement

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
	"payonce/internal/judge"
)

// jsonWriter writes one object, token by token. Its last member is the list of breaks.
type jsonWriter struct{ out *jsontext.Encoder }

type jsonRun struct {
	Summary

	Day string `json:"day"`
}

type jsonBreak struct {
	Day         string          `json:"day"`
	Account     string          `json:"account"`
	Kind        judge.BreakKind `json:"kind"`
	Object      gateway.Object  `json:"object"`
	Reference   string          `json:"reference"`
	PSPID       string          `json:"pspId"`
	Lines       int64           `json:"lines"`
	OtherTenant bool            `json:"otherTenant"`
	Theirs      *judge.Side     `json:"theirs"`
	Ours        *judge.Side     `json:"ours"`
	Moved       time.Time       `json:"movedAt"`
	MovementAge int64           `json:"movementAgeSeconds"`
	FirstSeen   time.Time       `json:"firstSeen"`
	Age         int64           `json:"ageSeconds"`
	Changed     string          `json:"changedPaymentId,omitzero"`
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

func (w *jsonWriter) add(b Break) error {
	return w.write(jsonBreak{
		Day: b.Day.Format(time.DateOnly), Account: b.Account, Kind: b.Kind, Object: b.Object, Reference: b.Reference,
		PSPID: b.PSPID, Lines: b.Lines, OtherTenant: b.OtherTenant, Theirs: b.Theirs,
		Ours: b.Ours, Moved: b.Moved, MovementAge: int64(b.MovementAge / time.Second), FirstSeen: b.FirstSeen,
		Age: int64(b.Age / time.Second), Changed: b.changed(),
	})
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
