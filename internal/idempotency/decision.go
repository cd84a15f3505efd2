package idempotency

import (
	"time"

	"github.com/google/uuid"

	"payonce/internal/idempotency/internal/dbsqlc"
)

// Response is the stored response of a key. It has every part of an answer that a client can compare, to the byte.
type Response struct {
	Status        int
	ContentType   string
	Location      string
	SchemaVersion int
	Body          []byte
}

// Execution names one execution of a key, past or present. It gives no right to write: everybody who has read a row can
// name its execution.
type Execution struct {
	Ref        Ref
	LeaseID    uuid.UUID
	Subject    uuid.UUID
	Attempt    int32
	Generation int32
}

// PassThroughKey is the Idempotency-Key that was sent to the PSP. It is the same for every attempt of a generation.
func (e Execution) PassThroughKey() string { return passThrough(e.Ref.Key, e.Generation) }

// Lease is the exclusive right to execute a key once, as attempt number Attempt, which is the fencing token. Only the
// request that has reserved the key has one: the field is not exported, so nobody else makes one. Two requests with the
// same attempt number have different lease ids.
type Lease struct {
	execution
	expires time.Time
	asked   time.Time
}

type execution = Execution

// Execution names the execution that the lease is for.
func (l Lease) Execution() Execution { return l.execution }

// KeyExpires is when the key, not the lease, expires, by the database's clock.
func (l Lease) KeyExpires() time.Time { return l.expires }

// Decision is the result of a reservation: one of Execute, Replay, InProgress, Mismatch, Unknown, Free, Held.
//
//sumtype:decl
type Decision interface{ decision() }

// Execute says that the key is ours. The holder of the lease executes it.
type Execute struct{ Lease Lease }

// Replay says that the key is completed. The stored response is the answer.
type Replay struct {
	Response Response
	Expires  time.Time
}

// InProgress says that another request is executing the key now. Its lease may be over, if the owner is gone or late:
// then Take makes the key unknown.
type InProgress struct {
	KeyRow
	leaseOver bool
}

// Mismatch says that the key was used for another request.
type Mismatch struct{ Expires time.Time }

// Unknown says that the key may have been executed. No request may execute it again.
type Unknown struct{ KeyRow }

// Free says that the key may be executed again: as the next attempt of a released key, or as the next generation of an
// expired one, which has a subject of its own.
type Free struct{ snapshot }

// try is the Try that takes the key.
func (f Free) try() Try {
	if f.Status == ExpiredStatus {
		return Try{seen: &f.snapshot, Begins: true}
	}
	return Try{seen: &f.snapshot, Resumes: f.Subject}
}

// same reports whether f and other have read the same state of the key. Then nobody has taken the key in between.
func (f Free) same(other Free) bool {
	return f.Status == other.Status && f.Generation == other.Generation && f.Attempt == other.Attempt
}

// Held says that an open dead letter says that money moved under this key. Nobody executes the key before an operator
// has closed the dead letter. The key may have no row.
type Held struct{}

func (Execute) decision()    {}
func (Replay) decision()     {}
func (InProgress) decision() {}
func (Mismatch) decision()   {}
func (Unknown) decision()    {}
func (Free) decision()       {}
func (Held) decision()       {}

// snapshot is a row as it was read. leaseOver says whether its lease was over then, by the database's clock. charged
// says whether an open dead letter says that money moved under the key.
type snapshot struct {
	KeyRow
	leaseOver, charged bool
}

// KeyRow is a key's row, for inspection.
type KeyRow struct {
	Ref         Ref
	Status      Status
	Fingerprint Fingerprint
	Attempt     int32
	Generation  int32
	LeaseID     uuid.UUID
	Subject     uuid.UUID
	Created     time.Time
	Reserved    time.Time
	LockedUntil *time.Time
	Finished    *time.Time
	Expires     time.Time
	Response    *Response
}

// Execution names the key's latest execution.
func (r KeyRow) Execution() Execution {
	return Execution{Ref: r.Ref, LeaseID: r.LeaseID, Subject: r.Subject, Attempt: r.Attempt, Generation: r.Generation}
}

// decide is the decision for a request with this fingerprint, if the row is not the request's own. An expired key is
// free for any request. A key in any other status belongs to the request with its fingerprint.
func (s snapshot) decide(fingerprint Fingerprint) Decision {
	if s.Status != ExpiredStatus && s.Fingerprint != fingerprint {
		return Mismatch{Expires: s.Expires}
	}
	switch s.Status {
	case CompletedStatus:
		return Replay{Response: *s.Response, Expires: s.Expires}
	case FailedRetryableStatus, ExpiredStatus:
		if s.charged {
			return Held{}
		}
		return Free{s}
	case InProgressStatus:
		return InProgress{s.KeyRow, s.leaseOver}
	case UnknownStatus:
	}
	return Unknown{s.KeyRow}
}

// fromRow is the only mapper of a key's row.
func fromRow(ref Ref, row dbsqlc.FindKeyRow) snapshot {
	s := snapshot{
		leaseOver: row.LockedUntil != nil && !row.LockedUntil.After(row.ReadAt),
		charged:   row.DeadLetterHold == dbsqlc.DeadLetterHoldDecline,
		KeyRow: KeyRow{
			Ref: ref, Status: Status(row.Status), Fingerprint: Fingerprint(row.Fingerprint),
			Attempt: row.Attempt, Generation: row.Generation, LeaseID: row.LeaseID, Subject: row.Subject,
			Created: row.CreatedAt, Reserved: row.ReservedAt, LockedUntil: row.LockedUntil,
			Finished: row.FinishedAt, Expires: row.ExpiresAt,
		},
	}
	if row.ResponseBody != nil {
		s.Response = &Response{
			Status: int(*row.ResponseStatus), ContentType: *row.ResponseContentType,
			Location: *row.ResponseLocation, SchemaVersion: int(*row.ResponseSchemaVersion), Body: row.ResponseBody,
		}
	}
	return s
}
