package platform

// HasRule says whether somebody thought of who may make a call.
func (s *Service) HasRule(call string) bool {
	_, ok := s.rules[call]
	return ok
}
