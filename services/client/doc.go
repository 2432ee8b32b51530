// Package client is a client of a Slipway server's REST API (gateway/contract). The command
// line uses it.
//
// Requests and responses are the messages of proto/slipway, whose JSON form is that of the
// API. Submit, Wait, Lock and the other methods make the calls for containers, Conda packages
// and images; Do makes any other call. Redirects are errors, so that the access token is only
// sent to the server that it belongs to.
package client
