package mockpsp

// Token is a test token, and what it does.
type Token struct{ Name, Means string }

// Tokens lists the test tokens for people: the usual ones first.
func Tokens() []Token {
	tokens := []Token{{string(faultOK), "charged, answered"}}
	for _, f := range randomFaults() {
		tokens = append(tokens, Token{string(f), meanings[f.rateName()]})
	}
	return append(tokens, Token{string(faultNever), "never answered, never charged"})
}
