package statement

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

const oneDay = 24 * time.Hour // every day is in UTC

// dayOf is the beginning of the UTC day of t.
func dayOf(t time.Time) time.Time { return t.UTC().Truncate(oneDay) }

func dateOf(day time.Time) pgtype.Date { return pgtype.Date{Time: day, Valid: true} }
