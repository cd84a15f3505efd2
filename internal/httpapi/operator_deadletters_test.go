package httpapi_test

import (
	"strings"
	"testing"
)

func TestEachGroundOfARefusalHasItsProblem(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	deadLetter := c.lost("pm_500_not_charged")
	body := func(action string) string { return `{"action":"` + action + `","reason":"seen to it","version":1}` }
	c.resolve(deadLetter, body("dismiss")).expect(t, 409, "dead_letter_needs_decision")
	c.resolve(deadLetter, body("not_executed")).expect(t, 409, "grace_period_open")
	c.resolve(c.stray(), body("executed")).expect(t, 409, "action_not_applicable")
	c.resolve(deadLetter, `{"action":"retry","reason":"x","version":2}`).expect(t, 409, "dead_letter_conflict")
	c.deaf.Store(true)
	if s := c.resolve(deadLetter, body("not_executed")).expect(t, 503,
		"psp_unavailable"); s.header.Get("Retry-After") == "" || !strings.Contains(s.body, "no fresh proof") {
		t.Errorf("%v %s", s.header, s.body)
	}
	known := openConsole(t)
	known.resolve(known.lost("pm_ok"), body("not_executed")).expect(t, 409, "operator_contradicts_psp")
}

func TestPSPIDOfTheOperatorIsTaken(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	deadLetter := c.lost("pm_ok")
	c.deaf.Store(true)
	s := c.resolve(deadLetter, `{"action":"executed","reason":"called them","version":1,"pspId":"ch_named"}`).expect(t,
		200, "")
	if !strings.Contains(s.body, `"status":"resolved"`) || !strings.Contains(s.body, `"version":2,"resolution":{`) {
		t.Errorf("dead letter is %s", s.body)
	}
	var id string
	if err := c.pool.QueryRow(t.Context(), "SELECT psp_charge_id FROM payments").Scan(&id); err != nil ||
		id != "operator:ch_named" {
		t.Errorf("%q, %v", id, err)
	}
}

func TestAuditNamesTheAPIKey(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	for key, label := range map[string]string{annKey: "ann", otherAnnKey: "ann", longKey: longLabel, namelessKey: ""} {
		actor := "api key " + c.ids[key].String()
		if label != "" {
			actor = label + " (" + actor + ")"
		}
		deadLetter := c.stray()
		s := c.ask(key, "POST", "/operator/dead-letters/"+deadLetter+"/resolve",
			`{"action":"dismiss","reason":"seen to it","version":1}`).expect(t, 200, "")
		if !strings.Contains(s.body, `"actor":"`+actor+`"`) {
			t.Errorf("dead letter is %s, want %s", s.body, actor)
		}
		if s := c.get("/operator/dead-letters/" + deadLetter); strings.Count(s.body, `"actor":"`+actor+`"`) != 2 {
			t.Errorf("dead letter is %s, want %s as who resolved it and in the audit", s.body, actor)
		}
	}
}

func TestDecisionIsStrictJSON(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	deadLetter := c.stray()
	for body, pointer := range map[string]string{
		`{"reason":"x","version":1}`:                                                   "/action",
		`{"action":"dismiss","version":1}`:                                             "/reason",
		`{"action":"dismiss","reason":"x"}`:                                            "/version",
		`{"action":"forget","reason":"x","version":1}`:                                 "/action",
		`{"action":"dismiss","reason":" ","version":1}`:                                "/reason",
		`{"action":"dismiss","reason":"` + strings.Repeat("x", 501) + `","version":1}`: "/reason",
		`{"action":"dismiss","reason":"card 4242424242424242","version":1}`:            "/reason",
		`{"action":"dismiss","reason":"x","version":0}`:                                "/version",
		`{"action":"dismiss","reason":"x","version":2147483648}`:                       "/version",
		`{"action":"dismiss","reason":"x","version":4294967297}`:                       "/version",
		`{"action":"dismiss","reason":"x","version":1.0}`:                              "/version",
		`{"action":"dismiss","reason":"x","version":"1"}`:                              "/version",
		`{"action":"dismiss","reason":null,"version":1}`:                               "/reason",
		`{"action":"dismiss","reason":"x","version":1,"Version":1}`:                    "/Version",
		`{"action":"dismiss","reason":"x","version":1,"version":1}`:                    "/version",
		`{"action":"dismiss","reason":"x","version":1,"actor":"bob"}`:                  "/actor",
		`{"action":"dismiss","reason":"x","version":1,"pspId":"ch_1"}`:                 "/pspId",
		`{"action":"executed","reason":"x","version":1,"pspId":""}`:                    "/pspId",
		`{"action":"executed","reason":"x","version":1,"pspId":"ch 1"}`:                "/pspId",
		`{"action":"dismiss","reason":"x","version":1} {}`:                             "",
		`[]`: "",
	} {
		s := c.resolve(deadLetter, body).expect(t, 400, "invalid_request")
		if !strings.Contains(s.body, `"errors":[{"pointer":"`+pointer+`"`) || strings.Contains(s.body, "4242") ||
			strings.Contains(s.body, "},{") {
			t.Errorf("%s: %s", body, s.body)
		}
	}
	c.resolve(deadLetter, `{"action":"dismiss","reason":"`+strings.Repeat("x", 16<<10)+`","version":1}`).expect(t, 413,
		"body_too_large")
	c.ask(annKey, "POST", "/operator/dead-letters/"+deadLetter+"/resolve", "action=dismiss", "Content-Type",
		"text/plain").expect(t, 415, "unsupported_media_type")
	if s := c.get("/operator/dead-letters/" + deadLetter); !strings.Contains(s.body, `"audit":[]`) ||
		!strings.Contains(s.body, `"version":1`) {
		t.Errorf("what is malformed has left a trace: %s", s.body)
	}
}

func TestOperatorIsToldThatTheStoreIsAway(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	deadLetter := c.stray()
	c.get("/operator/summary").expect(t, 200, "") // who is who is known by now
	c.its.Close()
	for _, s := range []said{
		c.get("/operator/summary"), c.get("/operator/dead-letters"), c.get("/operator/dead-letters/" + deadLetter),
		c.resolve(deadLetter, `{"action":"dismiss","reason":"x","version":1}`),
	} {
		if s.expect(t, 503, "idempotency_store_unavailable"); s.header.Get("Retry-After") == "" ||
			strings.Contains(s.body, "same key") {
			t.Errorf("%v %s", s.header, s.body) // an operator has no key to send again
		}
	}
}

// Several dead letters are decided about by a plan, which shows what would happen, and a run.
func TestSeveralDeadLettersAreDecidedByAPlan(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	lost := c.lost("pm_ok")
	c.stray()
	post := func(path, body string) said { return c.ask(annKey, "POST", "/operator/dead-letters/"+path, body) }
	for body, pointer := range map[string]string{
		`{}`:                                           "/action",
		`{"action":"not_executed"}`:                    "/action",
		`{"action":"answered"}`:                        "/action",
		`{"action":"retry","kind":"x"}`:                "/kind",
		`{"action":"retry","tenant":""}`:               "/tenant",
		`{"action":"retry","age":-1}`:                  "/age",
		`{"action":"retry","openedAfter":"yesterday"}`: "/openedAfter",
		`{"action":"retry","status":"resolved"}`:       "/status",
	} {
		if s := post("plan", body).expect(t, 400, "invalid_request"); !strings.Contains(s.body,
			`"errors":[{"pointer":"`+pointer+`"`) {
			t.Errorf("%s: %s", body, s.body)
		}
	}
	var plan struct {
		Plan string `json:"plan"`
	}
	s := post("plan", `{"action":"retry"}`).expect(t, 200, "")
	if s.into(t, &plan); !strings.Contains(s.body, `"count":2,"refused":1`) ||
		!strings.Contains(s.body, `"does":"Ask the PSP about the key again, at once."`) ||
		!strings.Contains(s.body, `"refused":{"code":"action_not_applicable"`) {
		t.Fatalf("plan is %s", s.body)
	}
	for body, pointer := range map[string]string{
		`{"plan":"` + plan.Plan + `"}`:                            "/reason",
		`{"plan":"` + plan.Plan + `","reason":" "}`:               "/reason",
		`{"plan":"` + plan.Plan + `","reason":"x","actor":"ann"}`: "/actor",
		`{"reason":"x"}`:            "/plan",
		`{"plan":"x","reason":"x"}`: "/plan",
	} {
		if s := post("run", body).expect(t, 400, "invalid_request"); !strings.Contains(s.body,
			`"errors":[{"pointer":"`+pointer+`"`) {
			t.Errorf("%s: %s", body, s.body)
		}
	}
	run := `{"plan":"` + plan.Plan + `","reason":"seen to it"}`
	s = post("run", run).expect(t, 200, "")
	if !strings.Contains(s.body, `"done":1,"refused":1,"unknown":0,"left":0`) ||
		!strings.Contains(s.body, `"actor":"ann (api key `+c.ids[annKey].String()+`)"`) {
		t.Errorf("run is %s", s.body)
	}
	post("run", run).expect(t, 409, "dead_letter_conflict")
	if s := c.get("/operator/dead-letters/"+lost).expect(t, 200, ""); !strings.Contains(s.body,
		`"status":"resolved"`) || !strings.Contains(s.body, `"action":"retry"`) {
		t.Errorf("dead letter is %s", s.body)
	}
}
