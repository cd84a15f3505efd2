package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// signInView is the form where people sign in.
type signInView struct {
	Next    string
	Refused string // why the last try was refused; or ""
}

func (c *Console) signInForm(w http.ResponseWriter, r *http.Request) {
	if _, err := c.operator(r); err == nil {
		http.Redirect(w, r, c.ownPath(r.URL.Query().Get("next")), http.StatusSeeOther)
		return
	}
	c.show(w, r, http.StatusOK, "signin.html", "Sign in", nil, signInView{Next: c.ownPath(r.URL.Query().Get("next"))})
}

// signIn begins a session. The API key is in the body, so it does not appear in any URL or log.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	apiKey, next := strings.TrimSpace(r.PostFormValue("key")), c.ownPath(r.PostFormValue("next"))
	_, err := c.authenticate(r, apiKey)
	switch {
	case errors.Is(err, errNoSession):
		c.show(w, r, http.StatusUnauthorized, "signin.html", "Sign in", nil, signInView{Next: next,
			Refused: "This is not the API key of an operator, or it has ended."})
	case err != nil:
		c.explain(w, r, err)
	default:
		secure := r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
		http.SetCookie(w, c.sessions.cookie(apiKey, secure))
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}

func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	c.sessions.signOut(r)
	http.SetCookie(w, ended())
	http.Redirect(w, r, "/console/sign-in", http.StatusSeeOther)
}

// ownPath is a path of the console, or of the page beside it, so that nobody is led elsewhere after signing in.
func (c *Console) ownPath(next string) string {
	if u, err := url.Parse(next); err == nil && c.config.DemoPage != "" && u.Host == "" && u.Scheme == "" &&
		u.Path == c.config.DemoPage {
		return (&url.URL{Path: c.config.DemoPage, RawQuery: u.Query().Encode()}).String()
	}
	if !strings.HasPrefix(next, "/console/") || strings.HasPrefix(next, "/console/sign-") ||
		strings.ContainsAny(next, "\\\r\n") {
		return "/console/"
	}
	return next
}
