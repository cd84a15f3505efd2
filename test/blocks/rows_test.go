package blocks

import "strings"

// asked is how a statement is executed. Its parameters have the values of usual, unless with names another one. In a
// value, $n is the number of a row, $id the id of its payment, $refund of its refund, and $dead of its dead letter.
type asked struct {
	is     int // n % 100 of the rows that it is about (testdata/grow.sql)
	with   values
	file   string // what comes before it in its transaction: what it finds in the temporary tables of a statement
	counts bool   // it returns how many rows it has changed or counted
	writes int    // how many rows it changes for each that it is asked about, if there are more
	// also is for statements that must read more than what they return: how many blocks more, as a percentage of the
	// number of payments, and what they read.
	also  int
	reads string
}

type values = map[string]string

// usual are values of parameters, by the name of a parameter in Go, in lower case and in singular.
var usual = values{
	"account": "'acme'", "action": "'dismiss'", "actor": "'ann'", "after": "'1 hour'", "amountminor": "100",
	"amountsminor": "100", "askedat": "payonce_now()", "attempt": "1", "audit": "'1 hour'", "before": "NULL",
	"behindstep": "false", "byoperator": "false", "createdafter": "NULL", "createdbefore": "NULL",
	"currency": "'USD'", "createdat": "'2026-01-01Z'", "openedat": "'2026-01-01Z'", "evidencedueby": "NULL",
	"oldestopen": "NULL",
	"customerid": "'customer-1'", "day": "'2026-01-02'", "deadletterid": "'$dead'", "deadletterversion": "1",
	"declinecode": "''", "description": "''", "detail": "''", "evidence": "'{}'", "final": "false",
	"fingerprint": "sha256('x')", "firstlookup": "'1 hour'", "generation": "1", "graceperiod": "'1 hour'",
	"id":             "'$id'",
	"idempotencykey": "'key-$n'", "key": "'key-$n'", "keyend": "'key-$n'", "keystatus": "'in_progress'",
	"kind":  "CASE $n WHEN 5002 THEN 'unknown_movement' ELSE 'kind-$n' END",
	"lease": "'1 hour'", "leaseid": "'$id'", "lookupfailure": "1", "maxrow": "21", "maxevent": "21",
	"metadata": "NULL", "object": "'charge'", "objectid": "'object'",
	"operation": "'POST /payments'", "overlap": "'1 hour'", "paymentid": "'$id'", "paymentmethod": "'pm_ok'",
	"psp": "'native'", "pspaccount": "'acme'", "pspchargeid": "'new-$n'", "pspmemory": "'100 years'",
	"reference":   "NULL",
	"psprefundid": "'new-$n'", "reason": "'test'", "responsebody": "'x'", "responsecontenttype": "'text/plain'",
	"responselocation": "'/x'", "responseschemaversion": "1", "responsestatus": "201", "retention": "'1 hour'",
	"runid": "'0000000e-0000-0000-0000-000000000002'", "seen": "'unknown'", "seenat": "payonce_now()",
	"status": "'succeeded'", "subject": "'$id'", "tell": "true", "tenant": "NULL", "tenantid": "'acme'",
	"unlesscharged": "false",
	"version":       "1", "visibility": "'1 hour'", "walkbegan": "'2026-01-01Z'",
}

const (
	refunds = "'POST /payments/{id}/refunds'"
	latest  = "'9999-01-01Z'"
	firstID = "'00000000-0000-0000-0000-000000000000'"
	lastID  = "'ffffffff-ffff-ffff-ffff-ffffffffffff'"
	// lines are a day's file with a line for each of 32 payments, and of 32 that it has only the PSP's id of.
	lines = `INSERT INTO statement_lines
		(day, line, object, psp_id, reference, subject, amount_minor, currency, charge_id, status, created_at)
		SELECT '2026-01-02', n, 'charge', 'charge-' || n, '', CASE WHEN n % 100 = 10 THEN id END, 1, 'USD', '',
			'succeeded', payonce_now()
		FROM named WHERE n % 100 IN (10, 12);`
	// changes are refunds of others in that file: of 32 confirmed charges, and of 32 that only their objects name.
	changes = `INSERT INTO statement_lines
		(day, line, object, psp_id, reference, amount_minor, currency, charge_id, status, created_at)
		SELECT '2026-01-02', n, 'refund', 'outside-' || n, '', 1, 'USD',
			CASE n % 100 WHEN 2 THEN 'object-' ELSE 'charge-' END || n, 'succeeded', payonce_now()
		FROM named WHERE n % 100 IN (2, 12);`
	// disputed are disputes in that file.
	disputed = `INSERT INTO statement_lines
		(day, line, object, psp_id, reference, amount_minor, currency, charge_id, status, created_at)
		SELECT '2026-01-02', -n, 'dispute', 'dispute-' || n, '', 1, 'USD', 'charge-' || n, 'pending', payonce_now()
		FROM named WHERE n % 100 IN (10, 12);`
	ours = `INSERT INTO statement_ours SELECT 'charge', id, 'charge-' || n, 12000, 'USD', 'succeeded'
		FROM named WHERE n % 100 IN (10, 12);`
	elsewhere = `INSERT INTO statement_elsewhere SELECT 'dispute', 'dispute-' || n, 1, 'USD', 'won'
		FROM named WHERE n % 100 IN (10, 12);`
	absent = `INSERT INTO statement_absent SELECT 'charge', id, 'charge-' || n, 12000, 'USD', payonce_now(), payonce_now()
		FROM named WHERE n % 100 IN (10, 11);`
)

// statementsAsked has every statement of db/queries. A statement that reads different tables for different values is
// there once for each, with what it is about after a comma.
var statementsAsked = map[string]asked{
	"deadletters.AnswerDeadLetter": {is: 2, writes: 2, with: values{"finding": "'finding-$n'"}},
	"deadletters.AuditRefused":     {is: 13},
	"deadletters.CountOpen":        {also: 1, reads: "the open dead letters"},
	"deadletters.GetDeadLetter":    {is: 13, with: values{"id": "'$dead'"}},
	"deadletters.ListActions":      {is: 13},
	"deadletters.ListDeadLetters":  {with: open},
	"deadletters.OpenDeadLetter": {is: 9, writes: 2, counts: true,
		with: values{"id": "'$dead'", "finding": "'new-$n'"}},
	"deadletters.OpenOnKey":         {is: 2, with: values{"id": "'$id'"}},
	"deadletters.RecomputeHold":     {is: 24},
	"deadletters.WakeFreed":         {is: 2, with: values{"generation": "2"}},
	"deadletters.ResolveDeadLetter": {is: 2, writes: 2, with: values{"id": "'$dead'"}},

	"events.AddDeliveries":            {is: 16, with: values{"version": "1000000 + $n"}, writes: 2},
	"events.AdvanceFeed":              {with: values{"position": "1"}},
	"events.DeleteDeliveriesOf":       {with: values{"endpointid": "'0000000b-0000-0000-0000-000000000003'"}},
	"events.DeleteDeliveriesOfEvents": {is: 18, writes: 3, with: values{"version": "$n"}},
	"events.DeleteEndpoint":           {with: values{"endpointid": "'0000000b-0000-0000-0000-000000000004'"}},
	"events.DeleteEvents":             {is: 18, with: values{"version": "$n"}},
	"events.FindDeletedEndpoints":     {},
	"events.FindDueEndpoints":         {},
	"events.FindNewEvents":            {},
	"events.FindOldEvents":            {with: values{"olderthan": "'1 hour'"}},
	"events.GetDueDeliveries":         {with: ofEndpoint},
	"events.LockFeed":                 {},
	"events.PlaceEvents":              {is: 16, with: values{"version": "1000000 + $n", "position": "1000000 + $n"}},
	"events.RecordDeliveries": {is: 17, with: values{"version": "$n",
		"endpointid": "'0000000b-0000-0000-0000-000000000001'", "giveup": "'1 hour'",
		"dueat": "timestamptz '2026-01-01Z' + $n * interval '1 second'", "delivered": "true", "final": "true",
		"status": "200", "answer": "''", "errors": "''", "waitmillis": "1000"}},
	"events.RestEndpoint":  {with: ofEndpoint},
	"events.RestEndpoints": {with: values{"endpointid": "'0000000b-0000-0000-0000-000000000001'", "rest": "'1 hour'"}},

	"events.CountEndpoints": {},
	"events.CreateEndpoint": {with: values{"url": "'https://shop.example'", "eventtypes": "ARRAY[]::text[]",
		"secret": "sha256('x')"}},
	"events.AuditEndpoint":  {with: ofEndpoint},
	"events.EnableEndpoint": {with: values{"id": "'0000000b-0000-0000-0000-000000000005'"}},
	"events.FindInFeed":     {is: 15, with: values{"version": "$n"}},
	"events.ListEndpoints": {also: 1, reads: "deliveries that wait, up to a limit",
		with: values{"id": "NULL", "maxwaiting": "100"}},
	"events.ListEndpoints, of an id": {also: 1, reads: "deliveries that wait, up to a limit",
		with: values{"id": "'0000000b-0000-0000-0000-000000000002'", "maxwaiting": "100"}},
	"events.FindPageBack": {with: values{"before": "6001", "between": "20"}},
	"events.GetDelivery":  {is: 15, with: delivery},
	"events.ListAllEndpoints": {also: 1, reads: "deliveries that wait, up to a limit",
		with: values{"maxwaiting": "100", "aftertenant": "''", "afterid": firstID}},
	"events.ListDeliveries": {with: partOfFeed},
	"events.ListEndpointActions": {is: 13,
		with: values{"endpointid": "('0000000b' || lpad(to_hex($n), 24, '0'))::uuid"}},
	"events.ListTold":   {is: 15},
	"events.LockTenant": {with: values{"id": "'acme'"}},
	"events.ReadFeed":   {with: values{"after": "50"}},
	"events.Redeliver":  {is: 15, with: values{"version": "$n", "endpointid": "NULL"}},
	"events.Redeliver, to one endpoint": {is: 15,
		with: delivery},
	"events.RedeliverSince":   {with: partOfFeed},
	"events.RotateSecret":     {with: values{"id": "'0000000b-0000-0000-0000-000000000001'", "secret": "sha256('y')"}},
	"events.SetTells":         {with: values{"id": "'acme'", "feed": "true", "tells": "true", "feedafter": "1"}},
	"events.WithdrawEndpoint": {with: values{"id": "'0000000b-0000-0000-0000-000000000001'"}},

	"idempotency.ClaimDue":            {is: 2},
	"idempotency.CompleteKeys":        {is: 0},
	"idempotency.CountKeys":           {also: 12, reads: "the open keys, and a sample of the others"},
	"idempotency.DeleteKeys":          {is: 5, counts: true},
	"idempotency.ExpireKeys":          {is: 7, counts: true},
	"idempotency.ExpireLease":         {is: 0, counts: true},
	"idempotency.FindDeadLettered":    {is: 2},
	"idempotency.FindDueKeys, sweep":  {with: values{"walk": "'sweep'"}},
	"idempotency.FindDueKeys, claim":  {with: values{"walk": "'claim'"}},
	"idempotency.FindDueKeys, expire": {with: values{"walk": "'expire'"}},
	"idempotency.FindDueKeys, delete": {with: values{"walk": "'delete'"}},
	"idempotency.FindHold":            {is: 24, with: values{"key": "'old-$n'"}},
	"idempotency.FindKey":             {is: 15},
	"idempotency.ListEvents":          {is: 15},
	"idempotency.ListUndecided":       {is: 2},
	"idempotency.LockKey":             {is: 15, with: values{"key": "'old-$n'"}},
	"idempotency.LoseKey":             {is: 0},
	"idempotency.NoteEvent":           {is: 15, counts: true},
	"idempotency.PostponeKey": {is: 2,
		with: values{"seendue": "timestamptz '2026-01-01Z' + $n * interval '1 second'"}},
	"idempotency.ReleaseKey":        {is: 0},
	"idempotency.ReleaseUnknownKey": {is: 2},
	"idempotency.RenewKey":          {is: 5},
	"idempotency.ReserveKeys":       {with: values{"key": "'new-$n'"}},
	"idempotency.ResolveKeys":       {is: 2},
	"idempotency.RetakeKey":         {is: 4},
	"idempotency.SweepLeases":       {is: 0},

	"operator.AnsweredDeadLetters": {also: 50, reads: "the open dead letters of a kind, and their keys", is: 2,
		with: values{
			"status": "'completed'",
		}},
	"operator.Backlog":      {also: 6, reads: "webhooks and lookups that wait, and jobs that are not finished"},
	"operator.FindSubjects": {is: 15},
	"operator.LatestKeys":   {},
	"operator.ListBreaks": {also: 2, reads: "the open breaks: they are sorted",
		with: values{"open": "true", "account": "NULL", "kind": "NULL", "before": "1000000"}},
	"operator.ListKeys":       {also: 6, reads: "the open keys: they are sorted", with: newestKeys},
	"operator.ListRuns":       {with: values{"account": "NULL", "beforestarted": latest, "beforeid": lastID}},
	"operator.ListWatermarks": {},
	"operator.ListWebhooks": {also: 2, reads: "the webhooks that wait: they are sorted",
		with: values{"status": "NULL", "waitingbefore": latest, "processedbefore": latest, "beforeid": "''"}},
	"operator.SearchDeadLetters": {is: 2, with: values{"id": "'$dead'", "idend": "'$dead'"}},
	"operator.SearchDeadLetters, beginning": {is: 2, with: values{"id": "'$dead'", "idend": "'$dead'", "key": "'key-'",
		"keyend": "'key-z'"}},
	"operator.SearchKeys":            {is: 15},
	"operator.SearchKeys, beginning": {with: values{"key": "'key-'", "keyend": "'key-z'"}},
	"operator.SearchMovements": {is: 10, with: values{"pspid": "'charge-$n'", "pspidend": "'charge-$n'",
		"refundid": "'$refund'", "refundidend": "'$refund'", "paymentidend": "'$id'"}},
	"operator.SearchMovements, beginning": {with: values{"pspid": "'charge-'", "pspidend": "'charge-z'",
		"refundid": firstID, "refundidend": lastID, "paymentid": "NULL"}},
	"operator.SearchMovements, beginning of an id": {with: values{"pspid": "''", "pspidend": "''",
		"paymentid": firstID, "paymentidend": lastID}},
	"operator.SearchMovements, with a reference": {with: values{"pspid": "''", "pspidend": "''", "refundid": "NULL",
		"refundidend": "NULL", "paymentid": "NULL", "paymentidend": "NULL", "reference": "'reference-7'"}},
	"operator.ShowKey":   {is: 15},
	"operator.StampKeys": {is: 15},

	"payments.BeginPayments":            {is: 1},
	"payments.BeginRefund":              {is: 11, with: refundsKey},
	"payments.BookedMovements":          {is: 15},
	"payments.BookedMovements, refunds": {is: 10, with: values{"id": "'$refund'", "object": "'refund'"}},
	"payments.FindPayment":              {is: 15},
	"payments.FindPayment, of a key":    {is: 15, with: values{"id": "NULL"}},
	"payments.FindRefund":               {is: 10, with: values{"id": "'$refund'"}},
	"payments.FindRefund, of a key": {is: 10,
		with: values{"id": "NULL", "operation": refunds, "key": "'refund-$n'"}},
	"payments.FindChanged": {is: 10,
		with: values{"object": "'refund'", "pspid": "'outside-$n'", "chargeid": "'charge-$n'"}},
	"payments.FindChanged, refunds of ours": {is: 10,
		with: values{"object": "'refund'", "pspid": "'refund-$n'", "chargeid": "'x'"}},
	"payments.FindChanged, disputes": {is: 10,
		with: values{"object": "'dispute'", "pspid": "'dispute-$n'", "chargeid": "'charge-$n'"}},
	"payments.ChargesByPSPID":           {is: 2, with: values{"pspid": "'object-$n'"}},
	"payments.KnownElsewhere":           {is: 10, with: values{"object": "'refund'", "pspid": "'outside-$n'"}},
	"payments.KnownElsewhere, disputes": {is: 10, with: values{"object": "'dispute'", "pspid": "'dispute-$n'"}},
	"payments.OldestOpenDispute":        {},
	"payments.NameMovement, refunds": {is: 9,
		with: values{"id": "'$refund'", "pspid": "'new-$n'", "object": "'refund'"}},
	"payments.NameMovement":       {is: 18, with: values{"pspid": "'new-$n'"}},
	"payments.ExecutionOfAnybody": {is: 15},
	"payments.GetPayment":         {is: 15},
	"payments.ReadLives":          {is: 9},
	"payments.ListPayments": {with: values{"before": lastID, "oldest": "'$id'", "customerid": "NULL",
		"status": "NULL"}},
	"payments.ListPayments, of a customer": {with: values{"before": lastID, "oldest": firstID,
		"customerid": "'customer-7'", "status": "NULL"}},
	"payments.ListPayments, with a reference": {with: values{"before": lastID, "oldest": firstID, "customerid": "NULL",
		"status": "NULL", "reference": "'reference-7'"}},
	"payments.ListRefunds":                  {is: 10, with: values{"before": lastID}},
	"payments.LockPayment":                  {is: 15},
	"payments.LockPayment, without a lease": {is: 15, with: values{"leaseid": "NULL"}},
	"payments.OtherMovementsOfKey":          {is: 15, with: values{"subject": "'$refund'"}},
	"payments.PSPIDTaken":                   {is: 15, with: values{"pspid": "'charge-$n'"}},
	"payments.RecordDispute": {is: 10,
		with: values{"pspid": "'dispute-$n'", "status": "'lost'"}},
	"payments.RecordRefundElsewhere": {is: 10,
		with: values{"psprefundid": "'outside-$n'", "declinecode": "NULL", "status": "'reversed'",
			"seemsofother": "false"}},
	"payments.RecordRefundElsewhere, ours": {is: 12,
		with: values{"seemsofother": "true"}, file: `UPDATE refunds AS r
		SET status = 'declined', decline_code = 'x', psp_refund_id = 'new-' || m.n FROM named AS m
		WHERE r.tenant_id = 'acme' AND r.idempotency_key = 'refund-' || m.n AND m.n % 100 = 12;`},
	"payments.ReverseRefund": {is: 10,
		with: values{"id": "'$refund'", "psprefundid": "'refund-$n'", "declinecode": "NULL"}},
	"payments.RecordPayments":            {is: 0},
	"payments.RecordRefund":              {is: 13, counts: true, with: refundsKey},
	"payments.RecordRefund, told before": {is: 13, counts: true, with: declined},
	"payments.RememberObject":            {is: 0},
	"payments.ResumePayment":             {is: 8},
	"payments.ResumeRefund":              {is: 14, with: refundsKey},
	"payments.TallyRefunds":              {is: 10},
	"payments.TenantOfAccount":           {},
	"payments.WriteEvents":               {is: 15, with: values{"pspid": "''"}},
	"payments.WriteEvents, refunds": {is: 10,
		with: values{"object": "'refund'", "pspid": "''", "refundid": "'$refund'"}},
	"payments.WriteEvents, disputes": {is: 10, with: values{"object": "'dispute'", "pspid": "'dispute-$n'"}},
	"payments.LockLost, refunds":     {is: 10, with: values{"refund": "true", "subject": "'$refund'"}},
	"payments.RecordAndTell":         {is: 0, writes: 2},
	"payments.RecordAndTell, changed before": {is: 0, writes: 2, file: `UPDATE payments AS p SET updated_at = payonce_now() FROM named AS m
		WHERE p.tenant_id = 'acme' AND p.id = m.id AND m.n % 100 = 0;`},
	"payments.ReadEvents": {is: 15, with: values{"version": "$n"}},
	"payments.LockLost":   {is: 15, with: values{"refund": "false"}},

	"reconcile.AdvanceWalk":  {with: values{"readto": latest}},
	"reconcile.BeginWalk":    {},
	"reconcile.EndWalk":      {},
	"reconcile.FailWalk":     {},
	"reconcile.ListAccounts": {with: values{"after": "''"}},
	"reconcile.LockLedgers":  {},
	"reconcile.PSPOfAccount": {},

	"statement.Books":          {},
	"statement.DayPayouts":     {},
	"statement.ForgetBooked":   {},
	"statement.KeepBooked":     {file: lines + disputed + ours + elsewhere + absent, writes: 128},
	"statement.KeepPaid":       {with: values{"payoutid": "'po_x'", "lineids": "ARRAY['line-$n']"}},
	"statement.LinesOfPayment": {with: values{"payment": "'$id'"}},
	"statement.Payouts":        {also: 100, reads: "the lines that the payout has paid"},
	"statement.FinalMovements": {is: 15, with: values{"known": latest, "skew": "'0'"}},
	"statement.ForgetUnmoved": {is: 20, also: 1, reads: "the open breaks of the days",
		with: values{"day": "date '2026-01-01' + $n / 1000"}},
	"statement.ForgetListed":  {file: lines, also: 6, reads: "what is pending"},
	"statement.ForgetPending": {},
	"statement.ListPending": {with: values{
		"before": "'9999-01-01'", "afterday": "'2026-01-01'", "afterobject": "''",
		"aftersubject": "'00000000-0000-0000-0000-000000000000'"}},
	"statement.WritePending":   {file: lines + ours + absent, with: values{"late": "'2026-01-01Z'"}},
	"statement.AdoptByPSPID":   {file: lines + ours},
	"statement.CountAbsent":    {file: absent, counts: true, with: values{"early": latest, "late": latest}},
	"statement.FetchCharges":   {file: changes},
	"statement.FetchElsewhere": {file: changes + disputed + ours},
	"statement.FetchOurs":      {file: lines},
	"statement.FetchStrangers": {file: lines},
	"statement.FindAbsent": {with: values{"horizon": "'1 hour'", "most": "'1 hour'", "skew": "'0'",
		"firstid": "'00000000-0000-0000-0000-000000000400'", "lastid": "'00000000-0000-0000-0000-000000000800'",
		"createdfrom": "'2026-01-01Z'", "createduntil": latest}},
	"statement.FindAccounts":    {},
	"statement.ForgetPresent":   {file: lines + absent},
	"statement.MarkGone":        {with: values{"runid": "'0000000e-0000-0000-0000-000000000001'"}},
	"statement.MissingDays":     {with: values{"lastday": "'2026-12-31'", "days": "30"}},
	"statement.OpenBreaks":      {with: values{"raisedby": "NULL", "after": "0"}},
	"statement.Totals":          {also: 1, reads: "the open breaks of the days"},
	"statement.TryLock":         {with: values{"name": "'x'"}},
	"statement.WriteAbsences":   {file: absent, with: values{"late": latest}},
	"statement.WriteLineBreaks": {file: lines + changes + ours, with: values{"ownprefix": "'operator:'"}},
	"statement.WriteRun": {with: values{"startedat": "payonce_now()", "status": "'complete'", "lines": "1",
		"breaks": "1", "pending": "1"}},

	"tenants.CreateTenant": {with: values{"id": "'new'", "pspaccount": "'new'", "requestspersecond": "1",
		"requestburst": "1"}},
	"tenants.ExpireKey": {with: values{"id": "'0000000a-0000-0000-0000-000000000001'"}},
	"tenants.InsertKey": {with: values{"secretsha256": "sha256('new')", "scopes": "'payments:read'",
		"label": "''"}},
	"tenants.ListActiveKeys":     {},
	"tenants.ListKeys":           {with: values{"id": "NULL"}},
	"tenants.ListKeys, of an id": {with: values{"id": "'0000000a-0000-0000-0000-000000000001'"}},
	"tenants.ListTenants":        {},
	"tenants.SetRate":            {with: values{"id": "'acme'", "requestspersecond": "1", "requestburst": "1"}},

	"webhooks.GetEvent":        {is: 15, with: event},
	"webhooks.SetResult":       {is: 0, with: values{"id": "'event-$n'", "result": "'resolved'"}},
	"webhooks.SetResult, none": {is: 15, with: event},
	"webhooks.PruneEvents":     {with: values{"olderthan": "'1 hour'"}},
	"webhooks.StoreEvents": {with: values{
		"ids": "ARRAY['new-$n']", "sentat": "ARRAY[payonce_now()]", "bodies": "ARRAY['x'::bytea]",
		"ignored": "ARRAY[false]",
		"kind":    "'webhook'", "queue": "'webhook'", "maxattempts": "20"}},
	"webhooks.WakeQueue": {with: values{"queue": "'webhook'"}},
}

// statementOf is the statement of a line of statementsAsked.
func statementOf(name string) string {
	statement, _, _ := strings.Cut(name, ", ")
	return statement
}

var (
	open = values{"status": "'open'", "kind": "NULL", "tenant": "NULL", "openedafter": "NULL", "openedbefore": "NULL",
		"age": "'0'", "beforeopened": "NULL", "beforeid": "NULL"}
	newestKeys = values{"status": "NULL", "livebefore": latest, "expiredbefore": latest, "beforetenant": "''",
		"beforeoperation": "''", "beforekey": "''"}
	refundsKey = values{"id": "'$refund'", "operation": refunds, "key": "'refund-$n'", "idempotencykey": "'refund-$n'",
		"leaseid": "'$refund'", "subject": "'$refund'", "declinecode": "NULL"}
	declined = values{"id": "'$refund'", "operation": refunds, "key": "'refund-$n'", "subject": "'$refund'",
		"status": "'declined'", "psprefundid": "'outside-$n'", "declinecode": "'x'"}
	event      = values{"id": "'event-$n'"}
	partOfFeed = values{"first": "5001", "before": "6001", "since": "0",
		"endpointid": "'0000000b-0000-0000-0000-000000000001'"}
	delivery   = values{"version": "$n", "endpointid": "'0000000b-0000-0000-0000-000000000001'"}
	ofEndpoint = values{"endpointid": "'0000000b-0000-0000-0000-000000000001'", "giveup": "'1 hour'",
		"rest": "'1 hour'", "failed": "true", "succeeded": "false", "reason": "''"}
)
