package httpx

// CloseListener makes a server fail as if its listener had broken.
func (s *Server) CloseListener() error { return s.listener.Close() }
