package idempotency

// Status is the status of a key.
type Status string

// The five statuses of a key. A key that was never reserved has no row and no status.
const (
	InProgressStatus      Status = "in_progress"
	CompletedStatus       Status = "completed"
	FailedRetryableStatus Status = "failed_retryable"
	UnknownStatus         Status = "unknown"
	ExpiredStatus         Status = "expired"
)

// Edge is a legal transition. From or To is empty for a key without a row.
type Edge struct{ From, To Status }

// Edges lists every legal transition. The table in docs/state_machine.md says for each who makes it, and under which
// guard. The trigger idempotency_keys_guard has the same list. Tests compare them: the database by trying all pairs,
// the models of lab/model by what Spin reaches.
func Edges() []Edge {
	return []Edge{
		{"", InProgressStatus},
		{InProgressStatus, CompletedStatus},
		{InProgressStatus, FailedRetryableStatus},
		{InProgressStatus, UnknownStatus},
		{UnknownStatus, CompletedStatus},
		{UnknownStatus, FailedRetryableStatus},
		{FailedRetryableStatus, InProgressStatus},
		{FailedRetryableStatus, CompletedStatus},
		{FailedRetryableStatus, ExpiredStatus},
		{CompletedStatus, ExpiredStatus},
		{ExpiredStatus, InProgressStatus},
		{ExpiredStatus, ""},
	}
}
