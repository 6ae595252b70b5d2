#pragma once

#include <nlohmann/json.hpp>

#include "daemon/adaptation/job_advisor.h"
#include "daemon/config/policy.h"
#include "daemon/jobs/job_table.h"
#include "daemon/requirements/grant.h"
#include "daemon/requirements/requirements_book.h"
#include "src/requirements/requirements.h"

namespace harmonaize::daemon {

/// Returns requirements by their keys' names, with texts for what has a unit, and the document that
/// says the same.
nlohmann::json DescribeRequirements(const Requirements& requirements);

/// Returns what is granted, and what is less than was asked for, with the reasons.
nlohmann::json DescribeGrant(const Grant& grant);

/// Returns what a tenant has said of a job, and what was granted to it.
nlohmann::json StatedDocument(const RequirementsView& view);
nlohmann::json GrantedDocument(const RequirementsView& view);

/// Returns how far the job has come, with null for what is not known.
nlohmann::json ProgressDocument(const JobAdvisor& advisor, const Job& job);

/// Returns what one tenant may have.
nlohmann::json DescribePolicy(const TenantPolicy& policy);
/// Returns what each may have.
nlohmann::json DescribePolicies(const PolicyConfig& policy);

}  // namespace harmonaize::daemon
