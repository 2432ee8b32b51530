package identity

// LookUps are the questions that find whose a token is, with one parameter.
func LookUps() map[string]string {
	return map[string]string{"token": tokenQuery, "session": sessionQuery}
}
