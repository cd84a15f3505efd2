package statement

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

const oneDay = 24 * time.Hour // in UTC, always

// dayOf is the beginning of the day, UTC, in which t is.
func dayOf(t time.Time) time.Time { return t.UTC().Truncate(oneDay) }

func dateOf(day time.Time) pgtype.Date { return pgtype.Date{Time: day, Valid: true} }

// idSlack is by how much the clock that is in our ids may be off that of the database, which dates rows.
const idSlack = time.Hour

// firstIDOf is below every UUIDv7 made at t or later: 48 bits of milliseconds lead it.
func firstIDOf(t time.Time) uuid.UUID {
	var id uuid.UUID
	for i, ms := 5, max(t.UnixMilli(), 0); i >= 0; i, ms = i-1, ms>>8 {
		id[i] = byte(ms & 0xff)
	}
	return id
}
