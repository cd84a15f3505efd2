package load

import "time"

// schedule lets requests fall due, one each 1/Rate seconds, whatever has become of those before.
func (r *run) schedule() {
	defer close(r.due)
	alarm, err := newAlarm(r.ctx)
	if err != nil {
		r.quote(err.Error())
		return
	}
	defer alarm.close()
	var counted int64
	for n := 0; ; n++ {
		due := time.Duration(float64(n) / r.plan.Rate * float64(time.Second))
		if due >= r.end || r.plan.Requests > 0 && counted >= r.plan.Requests {
			return
		}
		if wait := due - r.elapsed(); wait > 0 && !alarm.wait(wait) {
			return
		}
		if due >= r.warm {
			counted++
			r.late.record(r.elapsed() - due)
		}
		select {
		case r.due <- due:
		default:
			r.miss(due)
		}
	}
}
