package statement

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
	"payonce/internal/payments"
)

// jsonWriter writes one object, token by token. Its last member is the list of breaks.
type jsonWriter struct{ out *jsontext.Encoder }

type jsonRun struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Day     string `json:"day"`
	Lines   int64  `json:"lines"`
	Breaks  int64  `json:"breaks"`
	New     int64  `json:"new"`
	Gone    int64  `json:"gone"`
	Pending int64  `json:"pending"`
	Partial bool   `json:"partial"`
}

type jsonTotal struct {
	Kind              payments.BreakKind `json:"kind"`
	Currency          string             `json:"currency"`
	Breaks            int64              `json:"breaks"`
	AtStakeMinor      string             `json:"atStakeMinor"`
	Ages              jsonAges           `json:"ages"`
	OldestMovementAge jsonSeconds        `json:"oldestMovementAgeSeconds"`
}

type jsonAges struct {
	ToOneDay    int64 `json:"toOneDay"`
	ToSevenDays int64 `json:"toSevenDays"`
	Older       int64 `json:"older"`
}

// jsonSeconds is a duration in seconds.
type jsonSeconds int64

func secondsOf(d time.Duration) jsonSeconds { return jsonSeconds(d / time.Second) }

type jsonBreak struct {
	Day         string             `json:"day"`
	Account     string             `json:"account"`
	Kind        payments.BreakKind `json:"kind"`
	Object      gateway.Object     `json:"object"`
	Reference   string             `json:"reference"`
	PSPID       string             `json:"pspId"`
	Lines       int64              `json:"lines"`
	OtherTenant bool               `json:"otherTenant"`
	Theirs      *payments.Side     `json:"theirs"`
	Ours        *payments.Side     `json:"ours"`
	Moved       time.Time          `json:"movedAt"`
	MovementAge jsonSeconds        `json:"movementAgeSeconds"`
	FirstSeen   time.Time          `json:"firstSeen"`
	Age         jsonSeconds        `json:"ageSeconds"`
	Changed     string             `json:"changedPaymentId,omitzero"`
}

func (w *jsonWriter) begin(report Report, totals []Total) error {
	runs := make([]jsonRun, len(report.Runs))
	for i, s := range report.Runs {
		runs[i] = jsonRun{
			ID: s.ID.String(), Account: s.Account, Day: s.Day.Format(time.DateOnly), Lines: s.Lines, Breaks: s.Breaks,
			New:  s.New,
			Gone: s.Gone, Pending: s.Pending, Partial: s.Partial,
		}
	}
	sums := make([]jsonTotal, len(totals))
	for i, t := range totals {
		sums[i] = jsonTotal{
			Kind: t.Kind, Currency: t.Currency, Breaks: t.Breaks, AtStakeMinor: t.AtStakeMinor,
			Ages: jsonAges{t.ToOneDay, t.ToSevenDays, t.Older}, OldestMovementAge: secondsOf(t.OldestMovement),
		}
	}
	return w.write(
		jsontext.BeginObject, "day", report.Day.Format(
			time.DateOnly), "runs", runs, "totals", sums, "breaks", jsontext.BeginArray)
}

func (w *jsonWriter) add(b Break) error {
	return w.write(jsonBreak{
		Day: b.Day.Format(time.DateOnly), Account: b.Account, Kind: b.Kind, Object: b.Object, Reference: b.Reference,
		PSPID: b.PSPID, Lines: b.Lines, OtherTenant: b.OtherTenant, Theirs: b.Theirs,
		Ours: b.Ours, Moved: b.Moved, MovementAge: secondsOf(b.MovementAge), FirstSeen: b.FirstSeen,
		Age:     secondsOf(b.Age),
		Changed: b.changed(),
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
