package statement

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

const oneDay = 24 * time.Hour // every day is in UTC

// dayOf is the beginning of the UTC day of t.
func dayOf(t time.Time) time.Time { return t.UTC().Truncate(oneDay) }

func dateOf(day time.Time) pgtype.Date { return pgtype.Date{Time: day, Valid: true} }

// idSlack is the largest difference between the clock in our ids, which is a process's, and the database's clock in the
// rows. If they differ by more, nobody would miss the movement, as in the lists of payments.
const idSlack = 24 * time.Hour

// firstIDOf is less than every UUIDv7 that is made at t or later, because a UUIDv7 begins with 48 bits of milliseconds.
func firstIDOf(t time.Time) uuid.UUID {
	var id uuid.UUID
	for i, ms := 5, max(t.UnixMilli(), 0); i >= 0; i, ms = i-1, ms>>8 {
		id[i] = byte(ms & 0xff)
	}
	return id
}
