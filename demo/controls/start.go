package controls

import (
	"context"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
)

// getStart is the link that the demo prints: it signs the browser in at the console and leads to the page. It is good
// once, so a link in a terminal's history, or in a log, opens nothing. The page's own address has no token.
func (s *Controls) getStart(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.WriteHeader(http.StatusMethodNotAllowed) // a HEAD must not use the link up
		return
	}
	given := []byte(r.URL.Query().Get("token"))
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.startUsed || subtle.ConstantTimeCompare(given, []byte(s.config.StartToken)) != 1 {
		s.render(w, http.StatusGone, "gone", nil)
		return
	}
	cookies, err := s.signIn(r.Context(), r.Host)
	if err != nil {
		s.config.Log.WarnContext(r.Context(), "not signed in", slog.Any("error", err))
		s.render(w, http.StatusBadGateway, "away", nil) // the link stays good
		return
	}
	s.startUsed = true
	for _, cookie := range cookies {
		w.Header().Add("Set-Cookie", cookie)
	}
	http.Redirect(w, r, "/demo/", http.StatusSeeOther)
}

// signIn signs in at the console as a form on its page would, and returns the session's cookies for the browser. An
// answer without a session has none: the page works all the same, and the console asks for the key.
func (s *Controls) signIn(ctx context.Context, host string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	form := url.Values{"key": {s.config.OperatorKey}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.config.OperatorURL+"/console/sign-in",
		strings.NewReader(form))
	if err != nil {
		return nil, fmt.Errorf("sign in: %w", err)
	}
	req.Host = host
	req.Header.Set("Origin", "http://"+host)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("sign in: %w", err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode >= http.StatusInternalServerError:
		return nil, fmt.Errorf("sign in: the API answered %d", res.StatusCode)
	case res.StatusCode != http.StatusSeeOther:
		s.config.Log.WarnContext(ctx, "the console did not sign the browser in", slog.Int("status", res.StatusCode))
	}
	return res.Header.Values("Set-Cookie"), nil
}
