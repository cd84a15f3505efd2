package postgres

// Text reads a nullable column. NULL is the empty text.
func Text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Nullable is the reverse of Text.
func Nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
