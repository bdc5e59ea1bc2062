"""What tests share: database servers, processes, evidence."""
